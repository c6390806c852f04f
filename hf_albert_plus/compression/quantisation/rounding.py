"""Rounding to few levels, with straight-through gradients. O rows of a weight (its outputs), I columns."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch


@dataclass(frozen=True)
class Grid:
    """The levels of a weight.

    At 8 bits they are symmetric, -127 to 127, as in Q8BERT and as int8 products want them; of the few levels that fewer bits have
    none may be wasted, so they reach from a group's least to its largest value, with a zero of their own (Q-BERT, eq. 2).

    Attributes:
        bits: 2, 3, 4 or 8.
        groups: groups of consecutive rows that share their levels; None: every row has its own.
    """

    bits: int = 8
    groups: int | None = None

    @property
    def bounds(self) -> tuple[int, int]:
        return (-127, 127) if self.bits == 8 else (0, 2**self.bits - 1)


class LevelSteps(NamedTuple):
    """How levels become values: `(level - zero) * scale`, of every row `[O, 1]`."""

    scale_O1: torch.Tensor
    zero_O1: torch.Tensor


def row_groups(rows: int, groups: int | None) -> torch.Tensor:
    """The group of each row, `[O]`: as many consecutive ones in each as can be."""
    count = min(rows, groups or rows)
    return torch.arange(rows) * count // rows


def steps_of(weight_OI: torch.Tensor, grid: Grid) -> LevelSteps:
    """Scales and zeros from the least and largest values of every group."""
    group_O = row_groups(len(weight_OI), grid.groups).to(weight_OI.device)
    low_O, high_O = (bound.float() for bound in weight_OI.aminmax(dim=1))
    groups = int(group_O[-1]) + 1
    low_G = low_O.new_zeros(groups).scatter_reduce(0, group_O, low_O, "amin", include_self=True)
    high_G = high_O.new_zeros(groups).scatter_reduce(0, group_O, high_O, "amax", include_self=True)
    least, most = grid.bounds
    if grid.bits == 8:
        scale_G, zero_G = torch.maximum(-low_G, high_G) / most, torch.zeros_like(low_G)
    else:
        scale_G = (high_G - low_G) / (most - least)
        zero_G = torch.where(scale_G > 0, (-low_G / scale_G).round(), 0)
    scale_G = torch.where(scale_G > 0, scale_G, 1.0)
    return LevelSteps(scale_G[group_O][:, None], zero_G[group_O][:, None])


class _Levels(torch.autograd.Function):
    """values / scale, rounded and held between two bounds, with the gradient that the quotient alone has."""

    @staticmethod
    def forward(
        ctx: Any, values: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor, bounds: tuple[int, int]
    ) -> torch.Tensor:
        ctx.save_for_backward(scale)
        return values.float().div(scale).round_().add_(zero).clamp_(*bounds).sub_(zero)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        (scale,) = ctx.saved_tensors
        return gradients[0] / scale, None, None, None


def weight_levels(weight_OI: torch.Tensor, grid: Grid) -> tuple[torch.Tensor, LevelSteps]:
    """The nearest levels, counted from their zero, and what they stand for: times the scale of their row they are the weight that runs. The
    gradient passes as if nothing were rounded (the straight-through estimator of Q8BERT, eq. 4)."""
    steps = steps_of(weight_OI.detach(), grid)
    return _Levels.apply(weight_OI, steps.scale_O1, steps.zero_O1, grid.bounds), steps


def round_weight(weight_OI: torch.Tensor, grid: Grid) -> torch.Tensor:
    """The nearest values that a grid has, in fp32."""
    level_OI, steps = weight_levels(weight_OI, grid)
    return level_OI * steps.scale_O1


def activation_scale(amax: torch.Tensor) -> torch.Tensor:
    """The step of 8-bit activations whose largest magnitude is `amax` (Q8BERT, eq. 1). A range that was never seen has a step of 1."""
    return torch.where(amax > 0, amax / 127, 1.0)


def activation_levels(hidden: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """The nearest multiples of `scale` that int8 has, -128 to 127 as ONNX saturates, as whole numbers in fp32; the gradient passes."""
    return _Levels.apply(hidden, scale, torch.zeros_like(scale), (-128, 127))
