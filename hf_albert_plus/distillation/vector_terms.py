"""Terms of the method that copies a sentence encoder: of the vectors of texts."""

from dataclasses import dataclass
from typing import Any

import torch

from . import losses
from .terms import Batch, Term


@dataclass(frozen=True)
class _OfVectors(Term):
    """A loss of the student's vectors in the teacher's space.

    Attributes:
        own_space: whether the student's vectors lie in a space of their own, from which a learned map leads to the teacher's, even where
            the widths agree.
    """

    own_space: bool = False
    needs = of_teacher = frozenset({"vectors"})
    projection = "vectors"

    def mapped(self, batch: Batch) -> Any:
        """The student's vectors in the teacher's space."""
        projection, vectors_BW = batch.projection("vectors"), batch.student.vectors
        return projection(vectors_BW) if projection else vectors_BW


@dataclass(frozen=True)
class VectorError(_OfVectors):
    """Squared error of the vectors (Reimers and Gurevych 2020, eq. 1)."""

    def loss(self, batch: Batch) -> torch.Tensor:
        return losses.vector_error_loss(self.mapped(batch), batch.taught_vectors)


@dataclass(frozen=True)
class VectorCosine(_OfVectors):
    """1 - cosine of the vectors."""

    def loss(self, batch: Batch) -> torch.Tensor:
        return losses.vector_cosine_loss(self.mapped(batch), batch.taught_vectors)


@dataclass(frozen=True)
class VectorSimilarity(Term):
    """Squared error of the cosines of the texts of a batch to each other, of the student's own vectors and of their prefixes."""

    prefixes: tuple[int, ...] = ()
    needs = of_teacher = frozenset({"vectors"})

    def loss(self, batch: Batch) -> torch.Tensor:
        return losses.vector_similarity_loss(batch.student.vectors, batch.taught_vectors, prefixes=self.prefixes)
