"""Soft targets: the teacher's class distribution at a temperature."""

import torch
from torch.nn.functional import kl_div, log_softmax, mse_loss


def soft_target_loss(student_BC: torch.Tensor, teacher_BC: torch.Tensor, *, temperature: float) -> torch.Tensor:
    """T² · KL(softmax(teacher / T) ‖ softmax(student / T)), mean over the batch.

    Hinton, Vinyals and Dean 2015, section 2: the factor T² keeps the gradient's size independent of T. One logit means
    regression: the squared distance to the teacher's prediction, mean over the batch.

    Shape: logits `[batch, classes]` -> scalar.
    """
    if student_BC.shape[1] == 1:
        return mse_loss(student_BC, teacher_BC)
    student = log_softmax(student_BC / temperature, dim=-1)
    teacher = log_softmax(teacher_BC / temperature, dim=-1)
    return kl_div(student, teacher, reduction="batchmean", log_target=True) * temperature**2


__all__ = ["soft_target_loss"]
