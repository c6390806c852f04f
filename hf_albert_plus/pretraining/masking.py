"""Masked words, drawn anew each time a row is seen (RoBERTa, section 4.1)."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from ..draws import RowDraws

MASKED_SHARE = 0.15
IGNORED = -100
# Of the masked tokens 80 % are replaced, and up to 90 % replaced or random.
REPLACED, RANDOM = 0.8, 0.9


class DynamicMasking:
    """Masks 15 % of a row's tokens: 80 % of these become the mask token, 10 % a random one, 10 % stay (BERT, section 3.1).

    Args:
        weights: how much more often each id of the vocabulary is masked than another, `[vocabulary]`; None for all alike.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, *, seed: int, weights: torch.Tensor | None = None):
        self.tokenizer: Any = tokenizer
        self.draws = RowDraws(seed)
        self.weights = weights
        self.special = torch.zeros(len(tokenizer), dtype=torch.bool)
        self.special[tokenizer.all_special_ids] = True

    def __call__(self, ids: list[int]) -> tuple[list[int], list[int]]:
        """A row's ids with some of them masked, and labels: the originals there, -100 elsewhere."""
        generator = self.draws.generator(ids)
        given = torch.tensor(ids)
        masked = torch.rand(len(ids), generator=generator) < self._probabilities(given)
        fate = torch.rand(len(ids), generator=generator)
        random = torch.randint(len(self.tokenizer), (len(ids),), generator=generator)
        replaced = torch.where(fate < REPLACED, self.tokenizer.mask_token_id, torch.where(fate < RANDOM, random, given))
        return torch.where(masked, replaced, given).tolist(), given.masked_fill(~masked, IGNORED).tolist()

    def _probabilities(self, ids: torch.Tensor) -> torch.Tensor:
        """Of each token to be masked; their mean over those that are no specials is the share, but for what exceeds 1."""
        words = ~self.special[ids]
        weights = words.double() if self.weights is None else self.weights[ids].double() * words
        return (MASKED_SHARE * words.sum() * weights / weights.sum().clamp(min=1e-30)).clamp(max=1)


def smoothed_weights(rows: Iterable[list[int]], *, vocabulary: int, smoothing: float) -> torch.Tensor:
    """count^-smoothing of every id, so that rare words are masked more often (DistilBERT's release has 0.7)."""
    counts: Counter[int] = Counter()
    for ids in rows:
        counts.update(ids)
    return torch.tensor([max(counts[i], 1) ** -smoothing for i in range(vocabulary)], dtype=torch.float64)


__all__ = ["IGNORED", "MASKED_SHARE", "RANDOM", "REPLACED", "DynamicMasking", "smoothed_weights"]
