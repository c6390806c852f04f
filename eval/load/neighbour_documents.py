"""What `albert-plus bench invariance --json` writes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from hf_albert_plus.engines.invariance import BatchEffect
from hf_albert_plus.eval.measured_documents import IF_KNOWN, Environment


@dataclass(frozen=True, kw_only=True)
class NeighboursRow:
    """A target, what it answers to texts alone, and how far other ways to ask lie from that.

    Attributes:
        score: points of the answers to each text alone.
        score_in_batches: points of those in the first size of batches; both are None without labels.
        cosine: of the logits of texts alone, of tags of their words, to the baseline's; of vectors the mean over texts.
        least_cosine: of a text's vector alone to the baseline's, the least over texts; None of classifiers.
        other_predictions: texts (or words, of tags) to which the baseline gives another class, or another set of several labels; None of a
            regression and of vectors.
        ways: way to ask -> how far its answers lie from those alone.
    """

    label: str
    file_bytes: int
    score: float | None
    score_in_batches: float | None
    cosine: float
    other_predictions: int | None
    ways: dict[str, BatchEffect]
    least_cosine: float | None = field(default=None, metadata=IF_KNOWN)


@dataclass(frozen=True, kw_only=True)
class Neighbours:
    """Targets on the rows of a task's first evaluation split.

    Attributes:
        rows_of_split: how many texts were asked, of how many there are.
        clients: that ask the server at a time; None without one.
    """

    kind: Literal["invariance"] = "invariance"
    task: str
    data: str
    rows_of_split: tuple[int, int]
    clients: int | None = field(default=None, metadata=IF_KNOWN)
    baseline: str
    rows: Sequence[NeighboursRow]
    environment: Environment
