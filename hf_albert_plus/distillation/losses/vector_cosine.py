"""Cosine of vectors: the student's point where the teacher's do, whatever their lengths."""

import torch
from torch.nn.functional import cosine_similarity

from .reductions import check_shapes


def vector_cosine_loss(student_BW: torch.Tensor, teacher_BW: torch.Tensor) -> torch.Tensor:
    """1 - cos(student, teacher) of the vectors of each text, mean over the batch.

    Shape: `[batch, vector]` twice -> scalar.

    Raises:
        InvalidInput: shapes that do not fit together.
    """
    check_shapes(student_BW=student_BW, teacher_BW=teacher_BW)
    return (1 - cosine_similarity(student_BW, teacher_BW, dim=-1)).mean()
