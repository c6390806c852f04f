"""Macro averages as published. They differ in tasks, metrics and split, so each has a name, and none is mixed."""

from dataclasses import dataclass
from typing import Literal

from .glue import TASKS

# (report row, metric) scores, whose mean is one part of an average; metric None is all of the task's.
_MeanOf = tuple[tuple[str, str | None], ...]
_EIGHT = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte")
_NINE = (*_EIGHT, "wnli")


@dataclass(frozen=True)
class Average:
    """How a paper makes one number of GLUE's.

    Attributes:
        split: whose scores it averages.
        parts: what is averaged, each itself a mean.
        source: where it comes from.
    """

    name: str
    split: Literal["validation", "test"]
    parts: tuple[_MeanOf, ...]
    source: str

    def of(self, scores: dict[str, dict[str, float | None]]) -> float | None:
        """The average in points of report row -> metric -> points; None while a part is missing or not defined."""
        means = [_mean([_points(scores, row, metric) for row, metric in part]) for part in self.parts]
        return _mean(means)

    @property
    def rows(self) -> set[str]:
        """The report rows it needs."""
        return {row for part in self.parts for row, _ in part}


def _points(scores: dict[str, dict[str, float | None]], row: str, metric: str | None) -> float | None:
    of_row = scores.get(row, {})
    return of_row.get(metric) if metric else _mean(list(of_row.values()))


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _parts(
    tasks: tuple[str, ...], *, mnli: Literal["joined", "apart", "matched"], metrics: dict[str, str] | None = None
) -> tuple[_MeanOf, ...]:
    """A part a task, MNLI's halves as said. Metrics that are not named are all meant."""
    parts: list[_MeanOf] = []
    for task in tasks:
        rows: list[tuple[str, str | None]] = [(row, (metrics or {}).get(task)) for row in TASKS[task].rows]
        rows = rows[:1] if mnli == "matched" else rows
        parts += [(row,) for row in rows] if mnli == "apart" else [tuple(rows)]
    return tuple(parts)


AVERAGES = {
    average.name: average
    for average in (
        Average(
            "leaderboard",
            "test",
            _parts(_NINE, mnli="joined"),
            "gluebenchmark.com: nine tasks with WNLI, MNLI's halves as one, the mean where a task has two metrics",
        ),
        Average(
            "bert",
            "test",
            _parts(_EIGHT, mnli="apart", metrics={"mrpc": "f1", "qqp": "f1", "stsb": "spearman"}),
            "Devlin et al., 2019, Table 1 (TinyBERT too): no WNLI, MNLI's halves apart, F1 of MRPC and QQP, Spearman of STS-B",
        ),
        Average(
            "distilbert",
            "validation",
            _parts(_NINE, mnli="matched"),
            "Sanh et al., 2019, Table 1: nine tasks with WNLI, MNLI matched, the mean where a task has two metrics",
        ),
        Average(
            "theseus",
            "validation",
            _parts(_EIGHT, mnli="joined"),
            "Xu et al., 2020, Table 2: no WNLI, MNLI's halves as one, the mean where a task has two metrics",
        ),
    )
}
