"""Similarities within a batch: two texts are as near to each other for the student as for the teacher."""

from collections.abc import Sequence

import torch
from torch.nn.functional import normalize

from ...errors import InvalidInput
from .reductions import check_shapes


def vector_similarity_loss(
    student_BW: torch.Tensor, teacher_BH: torch.Tensor, *, prefixes: Sequence[int] = ()
) -> torch.Tensor:
    """(cos(sᵢ, sⱼ) - cos(tᵢ, tⱼ))², mean over the pairs i ≠ j of a batch, summed over the whole vectors of the student and their first
    numbers; 0 of a single text.

    The matrices of similarities are those of Tung and Mori 2019, section 3, with cosines for their products divided by rows. The sum
    over prefixes is that of Matryoshka representations (Kusupati et al. 2022, eq. 1, with weights of 1); each is compared with the
    teacher's whole vectors. It depends on which texts share a batch: each process compares those of its own part.

    Args:
        prefixes: how many first numbers of the student's vectors are compared too, each by themselves.

    Shape: `[batch, student's vector]` and `[batch, teacher's vector]` -> scalar.

    Raises:
        InvalidInput: shapes that do not fit together, or a prefix that is longer than the vectors.
    """
    check_shapes(student_BW=student_BW, teacher_BH=teacher_BH)
    batch, width = student_BW.shape
    for prefix in prefixes:
        if not 0 < prefix <= width:
            raise InvalidInput(
                f"a prefix must have from 1 to the vector's {width} numbers", got=prefix, repair="leave it out"
            )
    expected_BB = _cosines(teacher_BH)
    errors = [(_cosines(student_BW[:, :kept]) - expected_BB).square().sum() for kept in (width, *prefixes)]
    return torch.stack(errors).sum() / max(1, batch * (batch - 1))


def _cosines(vectors_BW: torch.Tensor) -> torch.Tensor:
    """Of each text to each, `[batch, batch]`; a text to itself is left out, as 0."""
    unit_BW = normalize(vectors_BW, dim=-1)
    return (unit_BW @ unit_BW.T).fill_diagonal_(0)
