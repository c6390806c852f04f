"""A phase: terms that are trained together on one kind of rows."""

from dataclasses import dataclass
from typing import Literal

from ..errors import InvalidInput
from .capture import Need
from .terms import Term

Rows = Literal["task", "text", "pairs"]


@dataclass(frozen=True)
class Phase:
    """One training of a method.

    Attributes:
        terms: added up by weight.
        rows: `"task"` the task's labelled rows; `"text"` unlabelled text, or the task's own rows where none is given;
            `"pairs"` the two texts of the task's rows one by one.
        epochs: passes over the rows; 0 leaves the phase out.
        layer_map: see `layer_map`.
        trains: what is trained: everything, or the exits alone.
        mask_smoothing: words are masked in proportion to count^-this.
        dual_share: the share of the words that the teacher reads in the student's vocabulary, where it is trained beside
            the student; None where it teaches as it is.
    """

    name: str
    terms: tuple[Term, ...]
    rows: Rows = "task"
    epochs: float = 1.0
    learning_rate: float = 5e-5
    layer_map: str = "uniform"
    trains: Literal["all", "exits"] = "all"
    mask_smoothing: float = 0.0
    dual_share: float | None = None

    def __post_init__(self) -> None:
        """A term without weight is left out, with all that it would need."""
        object.__setattr__(self, "terms", tuple(term for term in self.terms if term.weight > 0))
        if not self.terms:
            raise InvalidInput(
                f"the phase {self.name} must have a loss with weight",
                got="none",
                repair="raise one of its weights with --set",
            )

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset().union(*(term.needs for term in self.terms))

    @property
    def of_teacher(self) -> frozenset[Need]:
        return frozenset().union(*(term.of_teacher for term in self.terms))

    @property
    def reads_tokens(self) -> bool:
        """Whether student and teacher are masked language models in it."""
        return any(term.reads_tokens for term in self.terms)

    @property
    def trains_teacher(self) -> bool:
        return self.dual_share is not None

    @property
    def masks_words(self) -> bool:
        return self.rows == "text" and self.reads_tokens

    @property
    def caches_logits(self) -> bool:
        """Whether the teacher's logits are computed once a row: it sees every row unchanged, and nothing of its inside is
        read."""
        return self.of_teacher == frozenset({"logits"}) and not self.masks_words

    @property
    def formula(self) -> str:
        return " + ".join(f"{term.weight:g}·{term.name}" for term in self.terms)


__all__ = ["Phase", "Rows"]
