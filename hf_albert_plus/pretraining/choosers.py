"""Which tokens of a row are masked: each by itself, or spans of whole words."""

from random import Random
from typing import Any, Protocol

import torch

MASKED_SHARE = 0.15
# ALBERT's create_pretraining_data.py: characters that begin a word wherever they stand.
_ALONE = frozenset("!\"#$%&'()*+,-./:;?@[\\]^_`{|}~£€–")
# There too: what only these are in may go on with a word.
_ENGLISH = _ALONE - frozenset("'£€–") | frozenset("abcdefghijklmnopqrstuvwxyz")


class Chooser(Protocol):
    """From a row's ids and a generator to the tokens that are masked, `[S]`."""

    def __call__(self, ids: torch.Tensor, generator: torch.Generator) -> torch.Tensor: ...


def special_tokens(tokenizer: Any) -> torch.Tensor:
    """Whether each id of the vocabulary is a special token, `[V]`."""
    special = torch.zeros(len(tokenizer), dtype=torch.bool)
    special[tokenizer.all_special_ids] = True
    return special


class EachToken:
    """Each token by itself, so that 15 % of them are masked in the mean.

    Args:
        weights: how much more often each id is masked than another, `[V]`; None for all alike.
    """

    def __init__(self, tokenizer: Any, *, weights: torch.Tensor | None = None):
        self.special = special_tokens(tokenizer)
        self.weights = weights

    def __call__(self, ids: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        return torch.rand(len(ids), generator=generator) < self.probabilities(ids)

    def probabilities(self, ids: torch.Tensor) -> torch.Tensor:
        """Of each token to be masked; their mean over those that are no specials is the share, but for what exceeds 1."""
        words = ~self.special[ids]
        weights = words.double() if self.weights is None else self.weights[ids].double() * words
        return (MASKED_SHARE * words.sum() * weights / weights.sum().clamp(min=1e-30)).clamp(max=1)


class Spans:
    """Spans of n whole words, p(n) in proportion to 1/n for n up to `longest` (ALBERT, section 3.1: 6/11, 3/11, 2/11).

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


__all__ = ["MASKED_SHARE", "Chooser", "EachToken", "Spans", "special_tokens", "word_beginnings"]
