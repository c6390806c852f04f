"""Soft targets: the teacher's class distribution at a temperature."""

import torch
from torch.nn import functional as F


def soft_target_loss(student_BC: torch.Tensor, teacher_BC: torch.Tensor, *, temperature: float) -> torch.Tensor:
    """T² · KL(softmax(teacher / T) ‖ softmax(student / T)), mean over the batch.

    Hinton, Vinyals and Dean 2015, section 2: the factor T² keeps the gradient's size independent of T. One logit means
    regression: the squared distance to the teacher's prediction, mean over the batch.

    Shape: logits `[batch, classes]` -> scalar.
    """
    if student_BC.shape[1] == 1:
        return F.mse_loss(student_BC, teacher_BC)
    student = F.log_softmax(student_BC / temperature, dim=-1)
    teacher = F.log_softmax(teacher_BC / temperature, dim=-1)
    return F.kl_div(student, teacher, reduction="batchmean", log_target=True) * temperature**2


__all__ = ["soft_target_loss"]
