"""The speedup table: scores and timings joined by what was measured."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.glue import TASKS

NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Timing:
    """Latency of one target at one shape."""

    p50_ms: float
    p95_ms: float
    speedup: float


@dataclass(frozen=True)
class Row:
    """One model on one engine.

    Attributes:
        scores: report task -> metric -> points; a metric that is not defined is None.
        timings: shape -> timing.
    """

    label: str
    name: str
    runtime: str
    parameters: int | None
    file_bytes: int | None
    scores: dict[str, dict[str, float | None]] = field(default_factory=dict)
    timings: dict[str, Timing] = field(default_factory=dict)

    def score(self, task: str) -> float | None:
        """The task's first metric, in points."""
        return next(iter(self.scores[task].values())) if task in self.scores else None

    def mean_score(self, tasks: tuple[str, ...]) -> float | None:
        """Mean of the tasks' scores, if all of them were measured."""
        scores = [self.score(task) for task in tasks]
        known = [score for score in scores if score is not None]
        return sum(known) / len(known) if known and len(known) == len(scores) else None


@dataclass(frozen=True)
class Table:
    """Rows in the order of the bench, the baseline first."""

    baseline: str
    tasks: tuple[str, ...]
    shapes: tuple[str, ...]
    rows: tuple[Row, ...]

    def header(self) -> list[str]:
        columns = ["model", "parameters", "file MB"]
        columns += [f"{task} {'/'.join(_metric_names(self.rows, task))}" for task in self.tasks]
        for shape in self.shapes:
            columns += [f"{shape} p50 ms", f"{shape} p95 ms", f"{shape} speedup"]
        return columns

    def cells(self) -> list[list[str]]:
        return [self._cells_of(row) for row in self.rows]

    def _cells_of(self, row: Row) -> list[str]:
        cells = [
            row.label,
            f"{row.parameters:,}" if row.parameters is not None else NOT_MEASURED,
            f"{row.file_bytes / 1e6:.1f}" if row.file_bytes is not None else NOT_MEASURED,
        ]
        for task in self.tasks:
            metrics = row.scores.get(task)
            cells.append(NOT_MEASURED if metrics is None else " / ".join(_points(value) for value in metrics.values()))
        for shape in self.shapes:
            timing = row.timings.get(shape)
            cells += (
                [NOT_MEASURED] * 3
                if timing is None
                else [f"{timing.p50_ms:.2f}", f"{timing.p95_ms:.2f}", f"{timing.speedup:.2f}x"]
            )
        return cells


def _points(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.1f}"


def _metric_names(rows: tuple[Row, ...], task: str) -> list[str]:
    return next((list(row.scores[task]) for row in rows if task in row.scores), [])


def build_table(scores: list[dict[str, Any]], latency: dict[str, Any]) -> Table:
    """Joins score documents (one a task) and a latency document by label.

    The models of one label must be of one architecture: then the timing of one stands for all of them. Where a score
    and a timing name the same directory, the file they ran must be the same too.

    Raises:
        InvalidInput: documents of another kind, of different machines, or of different models under one label.
    """
    for document, kind in [*((document, "scores") for document in scores), (latency, "latency")]:
        if document.get("kind") != kind:
            raise InvalidInput(
                f"a {kind} file must come from albert-plus {'eval' if kind == 'scores' else 'bench'} --json",
                got=f"a file of kind {document.get('kind')!r}",
                repair="swap --scores and --bench, or measure again",
            )
    for key, rule in (
        ("data", "scores of a task must come from one data set"),
        ("max_length", "scores of a task must be cut at one length"),
    ):
        _check_one_each(scores, key, rule)
    timed = {row["label"]: row for row in latency["rows"]}
    by_label: dict[str, dict[str, dict[str, float | None]]] = {}
    for document in scores:
        for row in document["rows"]:
            _check_same_model(row, timed.get(row["label"]))
            task_scores = by_label.setdefault(row["label"], {})
            if row["task"] in task_scores:
                raise InvalidInput(
                    "a label must have one score a task",
                    got=f"two of {row['label']!r} on {row['task']}",
                    repair="give each --scores file once",
                )
            task_scores[row["task"]] = row["metrics"]
    machines = {
        f"{document['environment']['processor']} with {document['environment']['threads']} threads"
        for document in [*scores, latency]
    }
    if len(machines) > 1:
        raise InvalidInput(
            "scores and timings must come from one kind of machine",
            got=" and ".join(sorted(machines)),
            repair="measure all on one",
        )
    names = {row["label"]: (row["name"], row["runtime"]) for document in [*scores, latency] for row in document["rows"]}
    labels = [*timed, *(label for label in by_label if label not in timed)]
    labels.sort(key=lambda label: label != latency["baseline"])
    found = {task for per_task in by_label.values() for task in per_task}
    return Table(
        baseline=latency["baseline"],
        tasks=tuple(row for task in TASKS.values() for row in task.rows if row in found),
        shapes=tuple(latency["shapes"]),
        rows=tuple(_row(label, *names[label], timed.get(label), by_label.get(label, {})) for label in labels),
    )


def _row(label: str, name: str, runtime: str, timed: dict[str, Any] | None, scores: dict[str, Any]) -> Row:
    return Row(
        label=label,
        name=name,
        runtime=runtime,
        parameters=timed["parameters"] if timed else None,
        file_bytes=timed["file_bytes"] if timed else None,
        scores=scores,
        timings={
            shape: Timing(p50_ms=cell["p50_ms"], p95_ms=cell["p95_ms"], speedup=cell["speedup"])
            for shape, cell in (timed["shapes"].items() if timed else ())
        },
    )


def _check_one_each(scores: list[dict[str, Any]], key: str, rule: str) -> None:
    found: dict[str, Any] = {}
    for document in scores:
        value = document[key]["sha256"] if key == "data" else document[key]
        if found.setdefault(document["task"], value) != value:
            raise InvalidInput(
                rule, got=f"{found[document['task']]} and {value} for {document['task']}", repair="score all rows alike"
            )


def _check_same_model(score: dict[str, Any], timing: dict[str, Any] | None) -> None:
    if timing is None:
        return
    if score["architecture_sha256"] != timing["architecture_sha256"]:
        raise InvalidInput(
            "scores and timings under one label must be of one architecture",
            got=f"{score['label']!r} scored as {score['directory']} and timed as {timing['directory']}",
            repair="give them different names: NAME=DIR:RUNTIME",
        )
    if (
        Path(score["directory"]).resolve() == Path(timing["directory"]).resolve()
        and score["model_sha256"] != timing["model_sha256"]
    ):
        raise InvalidInput(
            "scores and timings of one directory must be of one file",
            got=f"{score['directory']}, changed between the two",
            repair="score and time it again",
        )


__all__ = ["NOT_MEASURED", "Row", "Table", "Timing", "build_table"]
