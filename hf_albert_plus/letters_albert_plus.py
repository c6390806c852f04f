"""Words as sums of their letter trigrams, hashed into a table of embeddings (TwinBERT, section 3.1; word hashing: DSSM, Huang et al.
2013, section 3.2).

The tokenizer gives letters, bytes of UTF-8, with a boundary mark before each word. What it makes of a text is a sequence of ids like
any other, so that rows are padded, cut and kept as always; trigrams are made of them here, by arithmetic alone. C letters, W words.
"""

import torch
from torch import nn

from .configuration_albert_plus import LETTER_SPECIALS

# The tokenizer's ids: special tokens, then the bytes. A space is the boundary mark.
FIRST_LETTER = len(LETTER_SPECIALS)
MARK = FIRST_LETTER + ord(" ")
# 2^32 divided by the golden ratio (Knuth, The Art of Computer Programming, volume 3, section 6.4), and a second odd number below 2^31,
# so that no product leaves 64 bits.
_FIRST, _SECOND, _WORD = 2654435761, 0x7FEB352D, 1 << 32


def trigram_rows(letters_BC: torch.Tensor, *, rows: int) -> torch.Tensor:
    """The row of the table for the trigram around each letter, `[B, C]`; special tokens have their own, the first ones of the table.

    The letters of `#cheap#` have `#ch`, `che`, `hea`, `eap` and `ap#`: before the first and after the last letter of a word stands the
    boundary mark. A trigram is a number of three bytes; two products within 32 bits, with a shift between them, spread the numbers over
    the rows, where some share one.

    Args:
        letters_BC: ids of the tokenizer.
        rows: of the table.
    """
    is_letter_BC = letters_BC >= FIRST_LETTER
    bytes_BC = torch.where(is_letter_BC, letters_BC - FIRST_LETTER, MARK - FIRST_LETTER)
    around = nn.functional.pad(bytes_BC, (1, 1), value=MARK - FIRST_LETTER)
    trigrams_BC = (around[:, :-2] << 16) + (bytes_BC << 8) + around[:, 2:]
    mixed_BC = trigrams_BC * _FIRST % _WORD
    mixed_BC = (mixed_BC ^ (mixed_BC >> 15)) * _SECOND % _WORD
    buckets_BC = mixed_BC * (rows - FIRST_LETTER) // _WORD
    return torch.where(is_letter_BC, buckets_BC + FIRST_LETTER, letters_BC)


class AlbertPlusLetterTrigrams(nn.Module):
    """Letters to words: each is the sum of its trigrams' embeddings, a special token its own embedding. It owns no weight: the table is
    the encoder's word embeddings."""

    def forward(
        self, letters_BC: torch.Tensor, mask_BC: torch.Tensor | None, table: nn.Embedding
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Embeddings of words `[B, W, E]`, and 1 where there is one `[B, W]`, with W the most words of a row."""
        real_BC = torch.ones_like(letters_BC).bool() if mask_BC is None else mask_BC.bool()
        begins_BC = real_BC & ((letters_BC < FIRST_LETTER) | (letters_BC == MARK))
        words_BC = begins_BC.cumsum(dim=1) - 1
        count_B = begins_BC.sum(dim=1)
        places_W = torch.arange(int(count_B.max()), device=letters_BC.device)
        counted_BC = real_BC & (letters_BC != MARK)
        belongs_BWC = (words_BC[:, None] == places_W[None, :, None]) & counted_BC[:, None]
        letters = torch.where(real_BC, letters_BC, MARK)
        embedded_BCE = table(trigram_rows(letters, rows=table.num_embeddings))
        words_BWE = belongs_BWC.to(embedded_BCE.dtype) @ embedded_BCE
        return words_BWE, (places_W < count_B[:, None]).long()
