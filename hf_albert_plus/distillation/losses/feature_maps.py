"""Feature maps: a block's output follows the teacher's, once normalised and by its statistics."""

import torch
from torch.nn.functional import layer_norm

from .hidden_states import hidden_state_loss
from .reductions import check_shapes, mean_over_tokens, zero_padding

# That of the reference code.
EPSILON = 1e-12


def feature_map_loss(student_BSH: torch.Tensor, teacher_BSH: torch.Tensor, mask_BS: torch.Tensor) -> torch.Tensor:
    """1/H · ‖LN(student) - LN(teacher)‖² of every real token, mean over tokens, then over the batch.

    MobileBERT (Sun et al. 2020), section 3, feature map transfer (L_FMT). LN is a LayerNorm without scale and shift.
    The released code takes the mean over all positions, padding among them.

    Shape: `[batch, sequence, hidden]` twice and a mask `[batch, sequence]` -> scalar.

    Raises:
        InvalidInput: shapes that do not fit together.
    """
    check_shapes(student_BSH=student_BSH, teacher_BSH=teacher_BSH, mask_BS=mask_BS)
    student, teacher = (
        layer_norm(zero_padding(states, mask_BS), states.shape[-1:], eps=EPSILON)
        for states in (student_BSH, teacher_BSH)
    )
    return hidden_state_loss(student, teacher, mask_BS)


def feature_statistics_losses(
    student_BSH: torch.Tensor, teacher_BSH: torch.Tensor, mask_BS: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """(μ_S - μ_T)² and |σ²_S - σ²_T| of every real token's hidden values, mean over tokens, then over the batch.

    MobileBERT (Sun et al. 2020), section 3: what the LayerNorm of `feature_map_loss` hides, and the student, without
    LayerNorms, has to learn. σ² is the population's variance. The released code weighs the mean with 5000 and the
    variance with 5, takes the mean over all positions, and compares every layer of the student with the statistics of
    all the teacher's layers instead of its own.

    Shape: `[batch, sequence, hidden]` twice and a mask `[batch, sequence]` -> two scalars, of means and of variances.

    Raises:
        InvalidInput: shapes that do not fit together.
    """
    check_shapes(student_BSH=student_BSH, teacher_BSH=teacher_BSH, mask_BS=mask_BS)
    student, teacher = zero_padding(student_BSH, mask_BS), zero_padding(teacher_BSH, mask_BS)
    means_BS = student.mean(dim=-1) - teacher.mean(dim=-1)
    variances_BS = student.var(dim=-1, correction=0) - teacher.var(dim=-1, correction=0)
    return mean_over_tokens(means_BS.square(), mask_BS), mean_over_tokens(variances_BS.abs(), mask_BS)
