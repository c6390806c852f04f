"""Attention transfer: the student's heads attend as the teacher's do."""

import torch

from .attention_scores import attention_log_probabilities
from .reductions import check_shapes, mean_over_tokens


def attention_transfer_loss(
    student_BNSS: torch.Tensor, teacher_BNSS: torch.Tensor, mask_BS: torch.Tensor
) -> torch.Tensor:
    """-Σ_key p_T · log p_S over real keys, mean over heads and an example's real rows, then over the batch.

    MobileBERT (Sun et al. 2020), section 3, attention transfer (L_AT). The paper writes KL(p_T ‖ p_S) and the released
    code computes the cross-entropy, as here: the gradient is the same, the minimum is the entropy of the teacher's
    attention. That code takes the mean over all rows, padding among them.

    Shape: scores before mask and softmax `[batch, heads, sequence, sequence]` twice and a mask `[batch, sequence]`
    -> scalar.

    Raises:
        InvalidInput: shapes that do not fit together, such as two numbers of heads.
    """
    check_shapes(student_BNSS=student_BNSS, teacher_BNSS=teacher_BNSS, mask_BS=mask_BS)
    student = attention_log_probabilities(student_BNSS, mask_BS)
    teacher = attention_log_probabilities(teacher_BNSS, mask_BS)
    entropy_BNS = -(teacher.exp() * student).sum(dim=-1)
    return mean_over_tokens(entropy_BNS.mean(dim=1), mask_BS)
