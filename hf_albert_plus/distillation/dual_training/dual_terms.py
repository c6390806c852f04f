"""The terms of dual training."""

from dataclasses import dataclass

import torch

from ...errors import InvalidInput, suggest
from .. import losses
from ..terms import Batch, Term
from .parameter_pairs import ParameterPairs

DIRECTIONS = ("both", "up", "down")


@dataclass(frozen=True, kw_only=True)
class DualBatch(Batch):
    """What the terms of dual training see beside the student's side.

    Attributes:
        own_logits, other_logits: the teacher's, of its mixed sequence, in its own vocabulary and in the student's.
        mixed_labels, by_student: the labels of that sequence, and which pieces the student's vocabulary cut.
        pairs: the matrices that `up` and `down` project; None where no term reads them.
    """

    own_logits: torch.Tensor
    other_logits: torch.Tensor
    mixed_labels: torch.Tensor
    by_student: torch.Tensor
    pairs: ParameterPairs | None
    up: torch.Tensor | None
    down: torch.Tensor | None


@dataclass(frozen=True)
class MixedWords(Term):
    """Cross-entropy of the teacher's masked pieces, each in the vocabulary that cut it (Zhao et al. 2019, section 3)."""

    needs = frozenset()
    reads_tokens = True

    def loss(self, batch: Batch) -> torch.Tensor:
        assert isinstance(batch, DualBatch)
        return losses.dual_vocabulary_loss(
            batch.own_logits, batch.other_logits, batch.mixed_labels, from_other_BS=batch.by_student
        )


@dataclass(frozen=True)
class SharedProjections(Term):
    """Squared error of the paired matrices under one U and one V (Zhao et al. 2019, section 3).

    Attributes:
        direction: the student's matrices `up` to the teacher's, the teacher's `down` to the student's, or `both`.
    """

    direction: str = "both"
    needs = of_teacher = frozenset()
    paired = True

    def __post_init__(self) -> None:
        if self.direction not in DIRECTIONS:
            raise InvalidInput(
                "--set projection must be up, down or both",
                got=repr(self.direction),
                repair=suggest(self.direction, list(DIRECTIONS)),
            )

    def loss(self, batch: Batch) -> torch.Tensor:
        assert isinstance(batch, DualBatch)
        pairs, up, down = batch.pairs, batch.up, batch.down
        assert pairs is not None
        assert up is not None
        assert down is not None
        chosen = [
            loss(pairs.student, pairs.teacher, up, down)
            for name, loss in (("up", losses.up_projection_loss), ("down", losses.down_projection_loss))
            if self.direction in (name, "both")
        ]
        return torch.stack(chosen).sum()
