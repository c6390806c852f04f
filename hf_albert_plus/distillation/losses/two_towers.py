"""Two towers: one logit a pair follows a two-class teacher that reads both texts together."""

import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from ...errors import InvalidInput


def two_tower_loss(
    student_logits_B: torch.Tensor, teacher_logits_B2: torch.Tensor, *, temperature: float
) -> torch.Tensor:
    """T² · H(p, σ(z / T)), mean over the batch: binary cross-entropy of the student's logit z with the teacher's soft
    label p = softmax(teacher / T)₁.

    TwinBERT has T = 2; the factor T² of Hinton, Vinyals and Dean 2015, section 2, keeps the gradient's
    size independent of T.

    Shape: `[batch]` and `[batch, 2]` -> scalar.

    Raises:
        InvalidInput: a teacher of another number of classes.
    """
    if teacher_logits_B2.shape != (*student_logits_B.shape, 2):
        raise InvalidInput(
            "two towers learn one logit a pair from a teacher's two",
            got=f"{tuple(student_logits_B.shape)} and {tuple(teacher_logits_B2.shape)}",
            repair="use a teacher fine-tuned on a task of pairs with two labels (mrpc, qqp)",
        )
    soft_labels_B = (teacher_logits_B2 / temperature).softmax(dim=-1)[:, 1]
    return binary_cross_entropy_with_logits(student_logits_B / temperature, soft_labels_B) * temperature**2
