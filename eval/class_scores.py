"""Scores of each class, and which classes are taken for which."""

from dataclasses import dataclass
from typing import Annotated

import numpy

from hf_albert_plus.records.limits import limited
from hf_albert_plus.tasks.tag_schemes import entity_labels
from hf_albert_plus.tasks.task import Task

# Pairs of classes that are named, and classes up to which every pair is counted.
_PAIRS, _WHOLE = 20, 20
Points = Annotated[float, limited(ge=0, le=100)]
Rows = Annotated[int, limited(ge=0, le=10**15)]


@dataclass(frozen=True, kw_only=True)
class ClassScore:
    """Precision, recall and F1 of a class in points, and the rows that have it."""

    label: str
    precision: Points
    recall: Points
    f1: Points
    support: Rows


@dataclass(frozen=True, kw_only=True)
class Confusion:
    """How many rows of one class are taken for another."""

    label: str
    predicted: str
    rows: Rows


@dataclass(frozen=True, kw_only=True)
class Confusions:
    """Which classes are taken for which.

    Attributes:
        largest: the pairs with most rows, most first.
        matrix: rows of each class (outer) that are predicted as each (inner), in the order of the task's labels; None of many classes.
    """

    largest: list[Confusion]
    matrix: list[list[Rows]] | None


def are_of(task: Task, classes: list[ClassScore] | None, found: Confusions | None) -> bool:
    """Whether scores and confusions, as far as there are some, are of a task's labels."""
    matrix = None if found is None else found.matrix
    named = {name for pair in (found.largest if found else ()) for name in (pair.label, pair.predicted)}
    return (
        (classes is None or [each.label for each in classes] == _named_in_scores(task) != [])
        and named <= set(task.labels)
        and (matrix is None or [len(row) for row in matrix] == [task.num_labels] * task.num_labels)
    )


def _named_in_scores(task: Task) -> list[str]:
    """The classes that a task has scores of: its labels, or of tags the kinds of entities."""
    scheme = task.tag_scheme or "plain"
    return list(task.labels) if scheme == "plain" else entity_labels(task.labels, scheme)


def class_scores(predicted: numpy.ndarray, labels: numpy.ndarray, task: Task) -> list[ClassScore]:
    """The score of each of a task's labels; precision and recall are 0 where nothing is predicted or held.

    Args:
        predicted, labels: ids, `[examples]`; 0 and 1 of several labels, `[examples, num_labels]`.
    """
    from sklearn.metrics import precision_recall_fscore_support

    columns = precision_recall_fscore_support(labels, predicted, labels=range(task.num_labels), zero_division=0)
    return [
        ClassScore(
            label=label,
            precision=round(100 * float(precision), 3),
            recall=round(100 * float(recall), 3),
            f1=round(100 * float(f1), 3),
            support=int(support),
        )
        for label, precision, recall, f1, support in zip(task.labels, *columns, strict=True)
    ]


def confusions(predicted: numpy.ndarray, labels: numpy.ndarray, task: Task) -> Confusions:
    """The confusions of a task whose classes exclude each other."""
    counts = numpy.zeros((task.num_labels, task.num_labels), dtype=int)
    numpy.add.at(counts, (labels, predicted), 1)
    wrong = counts - numpy.diag(numpy.diag(counts))
    order = numpy.argsort(-wrong, axis=None, kind="stable")[:_PAIRS].tolist()
    pairs = [(*divmod(place, task.num_labels), int(wrong.flat[place])) for place in order]
    return Confusions(
        largest=[
            Confusion(label=task.labels[held], predicted=task.labels[said], rows=rows)
            for held, said, rows in pairs
            if rows
        ],
        matrix=counts.tolist() if task.num_labels <= _WHOLE else None,
    )
