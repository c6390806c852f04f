"""Relative positions: what each head adds to the scores of two tokens by their distance (T5, MPNet)."""

import math

import torch
from torch import nn

from .configuration_albert_plus import AlbertPlusConfig

# Distances from this one on share the last bucket.
_FARTHEST = 128


def relative_buckets(positions: int, buckets: int) -> torch.Tensor:
    """The bucket of each distance from a query to a key, from `-(positions - 1)` to `positions - 1`: half of the buckets are for keys
    that stand behind. Near distances have one each, far ones share by their logarithm (T5, Raffel et al. 2020, section 2.1; MPNet)."""
    distances = torch.arange(1 - positions, positions)
    one_way, sizes = buckets // 2, distances.abs()
    exact = one_way // 2
    share = torch.log(sizes.clamp(min=1).float() / exact) / math.log(_FARTHEST / exact)
    far = (exact + (share * (one_way - exact)).long()).clamp(max=one_way - 1)
    return torch.where(sizes < exact, sizes, far) + one_way * (distances > 0)


class AlbertPlusRelativeBias(nn.Module):
    """What each head adds to scores by the bucket of a distance."""

    def __init__(self, heads: int, buckets: int):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1, heads, buckets))

    def forward(self, buckets_SS: torch.Tensor) -> torch.Tensor:
        """`[1, N, S, S]`."""
        return self.weight[:, :, buckets_SS]


def with_bias(mask: torch.Tensor | None, bias_1NSS: torch.Tensor) -> torch.Tensor:
    """What is added to scores: a bias, and a mask, which is added too or says where the scores count."""
    if mask is None:
        return bias_1NSS
    if mask.dtype == torch.bool:
        return torch.where(mask, bias_1NSS, torch.finfo(bias_1NSS.dtype).min)
    return bias_1NSS + mask.to(bias_1NSS.dtype)


class AlbertPlusRelativePositions(nn.Module):
    """Which bucket each pair of tokens falls into by its distance."""

    def __init__(self, config: AlbertPlusConfig):
        super().__init__()
        self.config = config
        self.buckets = nn.Buffer(self.of_distances(), persistent=False)

    def of_distances(self) -> torch.Tensor:
        """The bucket of every distance that there can be."""
        assert self.config.relative_attention_buckets is not None
        return relative_buckets(self.config.max_position_embeddings, self.config.relative_attention_buckets)

    def forward(self, length: int) -> torch.Tensor:
        """`[S, S]`, a row for each query.

        Raises:
            ValueError: an attention that adds nothing to scores.
        """
        if self.config._attn_implementation not in ("eager", "sdpa"):
            raise ValueError(
                "relative_attention_buckets need attn_implementation='sdpa' or 'eager', which add to scores, got "
                f"{self.config._attn_implementation!r}"
            )
        places = torch.arange(length, device=self.buckets.device)
        return self.buckets[places[None] - places[:, None] + self.config.max_position_embeddings - 1]
