"""The masking of rows: which tokens are masked, each by itself or in spans of whole words, and what stands in their place.

Masks are drawn anew each time a row is seen (RoBERTa, section 4.1), or are one of a number of copies (BERT).
"""

from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Any, Protocol

import torch
from transformers import PreTrainedTokenizerBase

from ..model_inputs import IGNORED
from ..training.row_order import RowDraws

MASKED_SHARE = 0.15
# ALBERT's create_pretraining_data.py: characters that begin a word wherever they stand.
_ALONE = frozenset("!\"#$%&'()*+,-./:;?@[\\]^_`{|}~£€–")
# From the same file: a piece of these characters alone may go on with a word.
_ENGLISH = _ALONE - frozenset("'£€–") | frozenset("abcdefghijklmnopqrstuvwxyz")


class Chooser(Protocol):
    """A function that chooses the tokens to mask, `[S]`, of a row's ids with a generator."""

    def __call__(self, ids: torch.Tensor, generator: torch.Generator) -> torch.Tensor: ...


def special_tokens(tokenizer: Any) -> torch.Tensor:
    """Whether each id of the vocabulary is a special token, `[V]`."""
    special = torch.zeros(len(tokenizer), dtype=torch.bool)
    special[tokenizer.all_special_ids] = True
    return special


class EachToken:
    """Chooses each token by itself, so that 15 % of them are masked in the mean.

    Args:
        weights: how much more often each id is masked than another, `[V]`; None for all alike.
    """

    def __init__(self, tokenizer: Any, *, weights: torch.Tensor | None = None):
        self.special = special_tokens(tokenizer)
        self.weights = weights

    def __call__(self, ids: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        return torch.rand(len(ids), generator=generator) < self.probabilities(ids)

    def probabilities(self, ids: torch.Tensor) -> torch.Tensor:
        """The probability of each token to be masked. Their mean over all but the special tokens is the share, but for what exceeds 1."""
        words = ~self.special[ids]
        weights = words.double() if self.weights is None else self.weights[ids].double() * words
        return (MASKED_SHARE * words.sum() * weights / weights.sum().clamp(min=1e-30)).clamp(max=1)


class Spans:
    """Chooses spans of n whole words, p(n) in proportion to 1/n for n up to `longest` (ALBERT, section 3.1: 6/11, 3/11, 2/11).

    Spans are drawn until 15 % of the row's real tokens are masked, rounded; one that would exceed that is shortened by words
    until it fits. One whose first word alone does not fit, or that meets another span, is dropped. A span lies within one
    segment.

    Args:
        longest: words in a span at most; 1 masks single whole words.
        cap: tokens that are masked at most. ALBERT's released commands have 20, which at 512 tokens is 4 % in place of 15.
        whole_words: False takes tokens for words.
    """

    def __init__(self, tokenizer: Any, *, longest: int = 3, cap: int | None = None, whole_words: bool = True):
        self.special = special_tokens(tokenizer)
        self.begins = word_beginnings(tokenizer) if whole_words else torch.ones(len(tokenizer), dtype=torch.bool)
        self.longest, self.cap = longest, cap

    def __call__(self, ids: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        words = self.words(ids)
        budget = round(MASKED_SHARE * sum(end - start for start, end in words))
        budget = max(1, budget if self.cap is None else min(budget, self.cap))
        random = Random(int(torch.randint(1 << 62, (1,), generator=generator)))
        order = list(range(len(words)))
        random.shuffle(order)
        masked = torch.zeros(len(ids), dtype=torch.bool)
        taken = [False] * len(words)
        sizes = range(1, self.longest + 1)
        for first in order:
            if budget == 0:
                break
            (drawn,) = random.choices(sizes, [1 / n for n in sizes])
            last = self._last(words, first, drawn)
            while last > first and words[last][1] - words[first][0] > budget:
                last -= 1
            start, end = words[first][0], words[last][1]
            if end - start > budget or any(taken[first : last + 1]):
                continue
            masked[start:end] = True
            taken[first : last + 1] = [True] * (last + 1 - first)
            budget -= end - start
        return masked

    def words(self, ids: torch.Tensor) -> list[tuple[int, int]]:
        """Start and end of every word; specials are none, and end one."""
        words: list[tuple[int, int]] = []
        inside = False
        for position, (special, begins) in enumerate(
            zip(self.special[ids].tolist(), self.begins[ids].tolist(), strict=True)
        ):
            if special:
                inside = False
            elif begins or not inside:
                words.append((position, position + 1))
                inside = True
            else:
                words[-1] = (words[-1][0], position + 1)
        return words

    @staticmethod
    def _last(words: list[tuple[int, int]], first: int, count: int) -> int:
        """The last word of a span of `count` words, or of those before the segment's end."""
        last = first
        while last + 1 < min(first + count, len(words)) and words[last + 1][0] == words[last][1]:
            last += 1
        return last


def word_beginnings(tokenizer: Any) -> torch.Tensor:
    """Whether each id of the vocabulary begins a word, `[V]`: in WordPiece what has no ##, in byte-level vocabularies what follows a
    space, in SentencePiece that and every piece with another character than a to z and punctuation (ALBERT's
    create_pretraining_data.py): digits, `'s`, and the letters of scripts that may have no spaces."""
    pieces = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    if any(piece.startswith("▁") for piece in pieces):
        return torch.tensor([piece in _ALONE or not _ENGLISH.issuperset(piece.lower()) for piece in pieces])
    if any(piece.startswith("Ġ") for piece in pieces):
        return torch.tensor([piece.startswith("Ġ") or piece in _ALONE for piece in pieces])
    return torch.tensor([not piece.startswith("##") for piece in pieces])


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
        """A row's ids with some of them masked, and labels: the originals at the masked places, -100 elsewhere."""
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
