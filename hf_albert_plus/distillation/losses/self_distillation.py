"""Self-distillation: a model's early exits follow its own last one."""

from collections.abc import Sequence
from typing import Literal, get_args

import torch

from ...errors import InvalidInput, check_name
from .reductions import check_shapes
from .soft_targets import soft_target_loss

Direction = Literal["final_exit", "exit_final"]


def self_distillation_loss(
    exits: Sequence[torch.Tensor], final_BC: torch.Tensor, *, direction: Direction = "final_exit"
) -> torch.Tensor:
    """Σ_exits KL(p_final ‖ p_exit), mean over the batch. The final logits are detached: the exits alone learn.

    FastBERT (Liu et al. 2020), section 3, self-distillation for branch. The paper writes KL(p_exit ‖ p_final), which is
    `exit_final`; the released code, with which its numbers were made, computes `final_exit`. One logit means
    regression: the squared distance, mean over the batch.

    Args:
        exits: logits of the exits before the last.
        final_BC: logits of the last.

    Shape: logits `[batch, classes]` each -> scalar.

    Raises:
        InvalidInput: no exits, shapes that differ, or an unknown direction.
    """
    if not exits:
        raise InvalidInput("exits must hold at least one exit's logits", got="none", repair="pass exits=[logits_BC]")
    check_name(direction, get_args(Direction), option="direction")
    final_BC = final_BC.detach()
    losses = []
    for exit_BC in exits:
        check_shapes(exit_BC=exit_BC, final_BC=final_BC)
        approximation, target = (exit_BC, final_BC) if direction == "final_exit" else (final_BC, exit_BC)
        losses.append(soft_target_loss(approximation, target, temperature=1))
    return torch.stack(losses).sum()
