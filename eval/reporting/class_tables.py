"""Classes in a report and a card: their scores, which are taken for which, and how far their probabilities can be trusted."""

import csv
import io
from collections.abc import Iterable
from typing import Any

from hf_albert_plus.eval.class_scores import ClassScore, Confusions
from hf_albert_plus.eval.measured_documents import ScoredRun
from hf_albert_plus.eval.reporting.presentation import Grid
from hf_albert_plus.eval.reporting.table import NOT_MEASURED, Row, Table

# Classes of a table, and of a card.
_SHOWN, _IN_CARD = 20, 5


def class_sections(table: Table) -> list[dict[str, Any]]:
    """What a report says of the classes of each row of one's own tasks, and the CSV of all of them; nothing of a benchmark's tasks."""
    sections = []
    for task in table.tasks:
        rows = [row for row in table.rows if task in row.scores and _first(row, task).classes is not None]
        if rows:
            sections.append(
                {
                    "task": task,
                    "trust": _trust_grid(rows, task),
                    "models": [_model(row, task) for row in rows],
                    "csv": _csv(rows, task),
                }
            )
    return sections


def card_classes(run: ScoredRun) -> dict[str, Any]:
    """What a card says of the classes of a run, in short; nothing of a benchmark's task."""
    if run.classes is None:
        return {}
    return {
        "worst_classes": [
            {"label": one_line(each.label), "f1": each.f1, "support": each.support}
            for each in _worst(run.classes)[:_IN_CARD]
        ],
        "largest_confusions": [
            {"label": one_line(each.label), "predicted": one_line(each.predicted), "rows": each.rows}
            for each in (run.confusions.largest[:_IN_CARD] if run.confusions else ())
        ],
        **({} if run.reliability is None else {"ece": round(run.reliability.ece, 4)}),
    }


def one_line(text: str) -> str:
    """A name of somebody's data on one line, as a cell has it."""
    return " ".join(text.split())


def _first(row: Row, task: str) -> ScoredRun:
    """The run whose classes are shown, where there are several seeds."""
    return row.scores[task].runs[0]


def _trust_grid(rows: list[Row], task: str) -> Grid:
    header = ["model", "expected calibration error", "lowest F1 of a class"]
    cells = []
    for row in rows:
        run = _first(row, task)
        worst = _worst(run.classes or [])[0]
        error = NOT_MEASURED if run.reliability is None else f"{100 * run.reliability.ece:.1f} %"
        cells.append([row.label, error, f"{worst.f1:.1f}"])
    return header, cells


def _model(row: Row, task: str) -> dict[str, Any]:
    run = _first(row, task)
    classes = run.classes or []
    return {
        "label": row.label,
        "classes": _class_grid(_worst(classes)[:_SHOWN]),
        "left_out": max(0, len(classes) - _SHOWN),
        "confusions": None if run.confusions is None else _confusion_grid(run.confusions, [each.label for each in classes]),
        "is_matrix": run.confusions is not None and run.confusions.matrix is not None,
    }  # fmt: skip


def _worst(classes: list[ClassScore]) -> list[ClassScore]:
    """The classes that rows have, those with the lowest F1 first; the others after them."""
    return sorted(classes, key=lambda each: (each.support == 0, each.f1))


def _class_grid(classes: Iterable[ClassScore]) -> Grid:
    return ["class", "precision", "recall", "F1", "rows"], [
        [one_line(each.label), f"{each.precision:.1f}", f"{each.recall:.1f}", f"{each.f1:.1f}", f"{each.support:,}"]
        for each in classes
    ]


def _confusion_grid(found: Confusions, labels: list[str]) -> Grid:
    """The whole matrix of few classes, the largest pairs of many."""
    if found.matrix is None:
        return ["class", "predicted", "rows"], [
            [one_line(each.label), one_line(each.predicted), f"{each.rows:,}"] for each in found.largest
        ]
    names = [one_line(label) for label in labels]
    return ["class, predicted as", *names], [
        [name, *(f"{count:,}" for count in counts)] for name, counts in zip(names, found.matrix, strict=True)
    ]


def _csv(rows: list[Row], task: str) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["model", "class", "precision", "recall", "f1", "rows"])
    for row in rows:
        for each in _first(row, task).classes or []:
            writer.writerow([row.label, each.label, each.precision, each.recall, each.f1, each.support])
    return text.getvalue()
