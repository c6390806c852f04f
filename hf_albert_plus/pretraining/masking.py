"""Masked words, drawn anew each time a row is seen (RoBERTa, section 4.1), or as one of a number of copies (BERT)."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from ..draws import RowDraws
from .choosers import MASKED_SHARE, Chooser

IGNORED = -100
# Of the masked tokens 80 % are replaced, and up to 90 % replaced or random.
REPLACED, RANDOM = 0.8, 0.9


class Masking:
    """Masks what a chooser chooses: 80 % of it becomes the mask token, 10 % a random one, 10 % stays (BERT, section 3.1),
    drawn for each token.

    Args:
        copies: None draws anew every epoch; a number of copies are drawn and taken in turn.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, *, chooser: Chooser, seed: int, copies: int | None = None):
        self.tokenizer: Any = tokenizer
        self.chooser = chooser
        self.draws = RowDraws(seed, copies=copies)

    def __call__(self, ids: list[int]) -> tuple[list[int], list[int]]:
        """A row's ids with some of them masked, and labels: the originals there, -100 elsewhere."""
        generator = self.draws.generator(ids)
        given = torch.tensor(ids)
        masked = self.chooser(given, generator)
        fate = torch.rand(len(ids), generator=generator)
        random = torch.randint(len(self.tokenizer), (len(ids),), generator=generator)
        replaced = torch.where(fate < REPLACED, self.tokenizer.mask_token_id, torch.where(fate < RANDOM, random, given))
        return torch.where(masked, replaced, given).tolist(), given.masked_fill(~masked, IGNORED).tolist()


def smoothed_weights(rows: Iterable[list[int]], *, vocabulary: int, smoothing: float) -> torch.Tensor:
    """count^-smoothing of every id, so that rare words are masked more often (DistilBERT's release has 0.7)."""
    counts: Counter[int] = Counter()
    for ids in rows:
        counts.update(ids)
    return torch.tensor([max(counts[i], 1) ** -smoothing for i in range(vocabulary)], dtype=torch.float64)


__all__ = ["IGNORED", "MASKED_SHARE", "RANDOM", "REPLACED", "Masking", "smoothed_weights"]
