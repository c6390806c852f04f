"""Patient distillation: what heads read of several layers, the [CLS] states in the paper, follows the teacher's."""

import torch
from torch.nn.functional import mse_loss, normalize

from .reductions import check_shapes


def patient_loss(student_BMH: torch.Tensor, teacher_BMH: torch.Tensor, *, normalise: bool = True) -> torch.Tensor:
    """(h_S/‖h_S‖ - h_T/‖h_T‖)², mean over hidden values, paired layers and the batch.

    PKD (Sun et al. 2019), eq. 7, which sums. The mean is the reference code's, and the weights β of 10 to 1000 belong
    to it. The student's last layer is not paired: the soft targets teach it.

    Args:
        student_BMH: [CLS] states of the student's layers.
        teacher_BMH: those of the teacher's layers they are paired with.
        normalise: the best MNLI, QNLI and QQP runs of the reference code do not (`kd.cls.False`).

    Shape: `[batch, layers, hidden]` twice -> scalar.

    Raises:
        InvalidInput: shapes that differ.
    """
    check_shapes(student_BMH=student_BMH, teacher_BMH=teacher_BMH)
    if normalise:
        student_BMH, teacher_BMH = normalize(student_BMH, dim=-1), normalize(teacher_BMH, dim=-1)
    return mse_loss(student_BMH, teacher_BMH)
