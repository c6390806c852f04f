"""Weights that are zero and stay zero while a model is trained, and how they become so (Compressing BERT, section 3)."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import TrainerCallback

from .settings import ZeroSettings

# Times that the share of zeros grows on the way.
_GROWTHS = 100
# A model with this share of zeros has them from pruning: training alone leaves next to none.
_SPARSE = 0.01


def matrices(model: Any) -> dict[str, torch.Tensor]:
    """The weights that can be zero: those of embeddings and products of the encoder, without biases, norms and heads."""
    return {
        name: module.weight
        for name, module in model.base_model.named_modules()
        if isinstance(module, nn.Linear | nn.Embedding)
    }


@dataclass(frozen=True)
class Zeros:
    """How many weights are zero.

    Attributes:
        weights: that could be, in matrices that are not zero as a whole.
        zeros: that are.
    """

    weights: int
    zeros: int

    @classmethod
    def of(cls, weights: dict[str, torch.Tensor]) -> "Zeros":
        """Those of a model's matrices."""
        begun = [weight for weight in weights.values() if weight.any()]
        return cls(sum(weight.numel() for weight in begun), sum(int((weight == 0).sum()) for weight in begun))

    @property
    def is_sparse(self) -> bool:
        """Whether so many are zero that somebody has made them so."""
        return self.zeros >= _SPARSE * max(self.weights, 1)

    def describe(self, *, parameters: int) -> dict[str, Any]:
        """The facts as a record has them."""
        shares = {
            "zeros_of_matrices": self.zeros / max(self.weights, 1),
            "zeros_of_parameters": self.zeros / parameters,
        }
        return {name: round(share, 4) for name, share in shares.items()}


def cubic(progress: float, *, sparsity: float) -> float:
    """s·(1 − (1 − t)³) (To Prune, or Not to Prune, eq. 1, from no zeros): fast while many weights are small, slower towards the end.

    Args:
        progress: t, from 0 to 1; beyond, all of them.
    """
    return sparsity * (1 - (1 - min(1.0, progress)) ** 3)


def mask_of(weight: torch.Tensor, *, sparsity: float) -> torch.Tensor:
    """True for what stays: all but the smallest ⌊sparsity·n⌋ weights of this matrix, the first of equal ones first."""
    count = int(sparsity * weight.numel())
    mask = torch.ones(weight.numel(), dtype=torch.bool, device=weight.device)
    mask[weight.detach().abs().flatten().argsort(stable=True)[:count]] = False
    return mask.view_as(weight)


class KeepsZeros(TrainerCallback):
    """Keeps the weights at zero that are zero when a training begins or goes on.

    A zero stays one, so the weights of a checkpoint say which they are. A matrix that is zero as a whole begins there, and learns.
    """

    def __init__(self, weights: dict[str, torch.Tensor]):
        self.weights = weights
        self.masks: dict[str, torch.Tensor] = {}

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.masks = {name: (weight != 0) | ~weight.any() for name, weight in self.weights.items()}

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._keep()

    @torch.no_grad()
    def _keep(self) -> None:
        for name, weight in self.weights.items():
            weight.mul_(self.masks[name])


class StaysSparse(KeepsZeros):
    """Keeps weights at zero after every step, and makes more of them zero by the schedule."""

    def __init__(self, weights: dict[str, torch.Tensor], *, settings: ZeroSettings):
        super().__init__(weights)
        self.settings = settings

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        super().on_train_begin(args, state, control, **kwargs)
        if self.settings.schedule == "one-shot" and state.global_step == 0:
            self._grow(self.settings.sparsity)

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        super().on_optimizer_step(args, state, control, **kwargs)
        # The step that was just taken is counted after this.
        step, ramp = state.global_step + 1, max(1, round(self.settings.ramp * state.max_steps))
        every = max(1, ramp // _GROWTHS)
        if self.settings.schedule == "cubic" and step <= ramp and (step % every == 0 or step == ramp):
            self._grow(cubic(step / ramp, sparsity=self.settings.sparsity))

    def _grow(self, sparsity: float) -> None:
        # What was zero before the run stays so while the schedule has asked for fewer.
        self.masks = {
            name: mask_of(weight, sparsity=sparsity) & self.masks[name] for name, weight in self.weights.items()
        }
        self._keep()
