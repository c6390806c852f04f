"""Soft labels: what a teacher said of every row, as a column of the data, so that it need not be at hand itself.

A row has a value for each label: probabilities or logits, in the order of the task's labels (`albert-plus score --logits` writes them
so) or named by them; of a task of numbers, its number. What is read here are logits, whichever of the two was written.
"""

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from ..errors import InvalidInput, shown, suggest
from ..records.progress import say
from .most_likely import json_value
from .task import Task

if TYPE_CHECKING:
    import pyarrow

# The column of rows that have been read.
SOFT_LABELS = "soft_labels"
# What a probability of 0 or 1 is taken for, as its logit is endless.
_SMALLEST = 1e-6


def read_soft_labels(table: "pyarrow.Table", column: str, task: Task, *, where: str) -> list[list[float]]:
    """The logits of every row, `[rows, C]`.

    Raises:
        InvalidInput: no such column, or a row without a finite value for each label.
    """
    if column not in table.column_names:
        raise InvalidInput(
            "--soft-labels must be a column of the data",
            got=f"{column!r}, and {where} has {', '.join(table.column_names)}",
            repair=f"{suggest(column, table.column_names)}; albert-plus score --engine DIR --input FILE --logits --output OUT writes one",
        )
    rows = [_row(value, task, column, f"row {i} of {where}") for i, value in enumerate(table.column(column).to_pylist(), 1)]  # fmt: skip
    if task.is_regression:
        return rows
    if any(not 0 <= value <= 1 for row in rows for value in row):
        return rows
    if task.has_several_labels:
        return [[_log_odds(value) for value in row] for row in rows]
    return [_logs_of_shares(row, column, f"row {i} of {where}") for i, row in enumerate(rows, 1)]


def say_agreement(soft: list[list[float]], labels: list[Any], task: Task, *, where: str) -> None:
    """Says how often the most likely class is the row's label. A teacher that is hardly ever right may have numbered its labels
    otherwise."""
    if task.kind != "classes":
        return
    agree = sum(max(range(len(row)), key=row.__getitem__) == label for row, label in zip(soft, labels, strict=True))
    most = max(Counter(labels).values())
    doubt = f": its labels may be in another order than {', '.join(task.labels[:5])}, …" if agree < most else ""
    say(f"the teacher's first class is the label in {100 * agree / len(labels):.1f} % of {where}{doubt}")


def _row(value: Any, task: Task, column: str, where: str) -> list[float]:
    """A value for each label, in the task's order."""
    value = json_value(value)
    if task.is_regression and isinstance(value, int | float):
        value = [value]
    if isinstance(value, dict) and not task.is_regression:
        others = value.keys() ^ set(task.labels)
        if others:
            raise InvalidInput(
                f"column {column!r} must name the {task.num_labels} labels of {task.name}",
                got=f"{min(map(str, others))!r} in one of the two alone, in {where}",
                repair="write a value for each label, under its name",
            )
        value = [value[name] for name in task.labels]
    numbers = [one for one in value if isinstance(one, int | float) and math.isfinite(one)] if isinstance(value, list) else []  # fmt: skip
    if not isinstance(value, list) or len(numbers) != task.num_labels or len(value) != task.num_labels:
        raise InvalidInput(
            f"column {column!r} must hold {task.num_labels} finite numbers a row, probabilities or logits of "
            + ", ".join(task.label_names[:5]),
            got=f"{shown(value)} in {where}",
            repair="write a list in that order, or an object with a number for each label",
        )
    return [float(one) for one in numbers]


def _logs_of_shares(row: list[float], column: str, where: str) -> list[float]:
    """Logits of probabilities, rounded ones or the largest few of a model's, which are shares of their sum.

    Raises:
        InvalidInput: none is above 0.
    """
    total = sum(row)
    if not total:
        raise InvalidInput(
            f"probabilities in column {column!r} must not all be 0",
            got=f"{shown(row)} in {where}",
            repair="write a probability for each label, or logits in every row",
        )
    return [math.log(max(value / total, _SMALLEST)) for value in row]


def _log_odds(probability: float) -> float:
    inside = min(max(probability, _SMALLEST), 1 - _SMALLEST)
    return math.log(inside / (1 - inside))
