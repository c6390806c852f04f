"""Hidden states: the student's layers follow chosen layers of the teacher."""

from collections.abc import Callable

import torch

from ...errors import InvalidInput
from .reductions import check_shapes, mean_over_tokens, zero_padding

Projection = Callable[[torch.Tensor], torch.Tensor]


def hidden_state_loss(
    student_BSH: torch.Tensor,
    teacher_BSH: torch.Tensor,
    mask_BS: torch.Tensor,
    *,
    projection: Projection | None = None,
) -> torch.Tensor:
    """1/H · ‖projection(student) - teacher‖² of every real token, mean over tokens, then over the batch.

    TinyBERT (Jiao et al. 2020), eq. 8: the projection is its learned W_h, `torch.nn.Linear(student, teacher)`. The
    reference code takes the mean over the whole padded tensor, and learns one projection, with a bias, for the
    embeddings and every layer.

    Shape: `[batch, sequence, hidden]` twice, with two widths under a projection, and a mask `[batch, sequence]`
    -> scalar.

    Raises:
        InvalidInput: shapes that do not fit together, widths that differ after the projection among them.
    """
    check_shapes(student_BSH=student_BSH, mask_BS=mask_BS)
    check_shapes(teacher_BSH=teacher_BSH, mask_BS=mask_BS)
    student, teacher = zero_padding(student_BSH, mask_BS), zero_padding(teacher_BSH, mask_BS)
    projected = student if projection is None else projection(student)
    if projected.shape != teacher.shape:
        widths = student.shape[-1], teacher.shape[-1]
        raise InvalidInput(
            "the student's states must come to the teacher's width",
            got=f"{projected.shape[-1]} for {widths[1]}",
            repair=f"pass projection=torch.nn.Linear({widths[0]}, {widths[1]})",
        )
    return mean_over_tokens((projected - teacher).square().mean(dim=-1), mask_BS)
