"""Squared error of vectors: the student puts each text where the teacher does."""

import torch

from .reductions import check_shapes


def vector_error_loss(student_BW: torch.Tensor, teacher_BW: torch.Tensor) -> torch.Tensor:
    """‖student - teacher‖² of the vectors of each text, mean over the batch.

    Reimers and Gurevych 2020, eq. 1, for texts of one language. Their code also takes the mean over the numbers of a vector; of vectors
    of length 1 that would be nothing beside a cosine, as the sum is 2 · (1 - cos).

    Shape: `[batch, vector]` twice -> scalar.

    Raises:
        InvalidInput: shapes that do not fit together.
    """
    check_shapes(student_BW=student_BW, teacher_BW=teacher_BW)
    return (student_BW - teacher_BW).square().sum(dim=-1).mean()
