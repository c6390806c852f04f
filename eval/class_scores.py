"""Scores of each class, and which classes are taken for which."""

from dataclasses import dataclass

import numpy

from hf_albert_plus.tasks.task import Task

# Pairs of classes that are named, and classes up to which every pair is counted.
_PAIRS, _WHOLE = 20, 20


@dataclass(frozen=True, kw_only=True)
class ClassScore:
    """Precision, recall and F1 of a class in points, and the rows that have it."""

    label: str
    precision: float
    recall: float
    f1: float
    support: int


@dataclass(frozen=True, kw_only=True)
class Confusion:
    """How many rows of one class are taken for another."""

    label: str
    predicted: str
    rows: int


@dataclass(frozen=True, kw_only=True)
class Confusions:
    """Which classes are taken for which.

    Attributes:
        largest: the pairs with most rows, most first.
        matrix: rows of each class (outer) that are predicted as each (inner), in the order of the task's labels; None of many classes.
    """

    largest: list[Confusion]
    matrix: list[list[int]] | None


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
