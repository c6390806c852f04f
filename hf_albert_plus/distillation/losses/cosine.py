"""Cosine: the student's hidden states point where the teacher's do."""

import torch
from torch.nn.functional import cosine_similarity

from .reductions import check_shapes, mean_over_tokens, zero_padding


def cosine_loss(student_BSH: torch.Tensor, teacher_BSH: torch.Tensor, mask_BS: torch.Tensor) -> torch.Tensor:
    """1 - cos(student, teacher) of every real token, mean over tokens, then over the batch.

    DistilBERT (Sanh et al. 2019), section 2, L_cos, on the last hidden states. The reference code takes one mean over
    the real tokens of the whole batch.

    Shape: `[batch, sequence, hidden]` twice and a mask `[batch, sequence]` -> scalar.

    Raises:
        InvalidInput: shapes that do not fit together.
    """
    check_shapes(student_BSH=student_BSH, teacher_BSH=teacher_BSH, mask_BS=mask_BS)
    student, teacher = zero_padding(student_BSH, mask_BS), zero_padding(teacher_BSH, mask_BS)
    return mean_over_tokens(1 - cosine_similarity(student, teacher, dim=-1), mask_BS)
