"""The speedup table, which joins scores and timings by what was measured."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.measured_documents import Cell, Latency, ScoredRow, Scores, TimedRow
from hf_albert_plus.eval.reporting.engine_split import Split, engine_splits
from hf_albert_plus.eval.resampling import Difference, difference, rounded
from hf_albert_plus.eval.scored_rows import sample
from hf_albert_plus.eval.window_counts import WindowCount
from hf_albert_plus.tasks.averages import AVERAGES
from hf_albert_plus.tasks.glue import TASKS
from hf_albert_plus.tasks.task import ERRORS, Task

NOT_MEASURED = "not measured"
# What `albert-plus report --allow-different` may name.
DIFFERENCES = ("machines", "data")
_SIZES = ("parameters", "effective_parameters", "sequence_flops", "file_bytes", "load_ms", "load_mb", "peak_rss_mb", "published_training_speedup")  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One model on one engine.

    Attributes:
        sizes: parameters, file_bytes and so on, as far as they were measured.
        scores: report task -> its row of the score document.
        differences: report task -> difference to the baseline, where both are scored.
        timings: load -> its cell of the latency document.
        splits: load -> its speedup as engine and model, where the baseline's model was timed in the same engine.
        windows: of a text of the traffic, or of the first task that was scored where the traffic has none; None where each text is one row.
        untimed: the tasks whose models were not timed themselves: the timings are of another model of this name and
            architecture.
    """

    label: str
    name: str
    runtime: str
    sizes: dict[str, Any] = field(default_factory=dict)
    scores: dict[str, ScoredRow] = field(default_factory=dict)
    differences: dict[str, Difference] = field(default_factory=dict)
    timings: dict[str, Cell] = field(default_factory=dict)
    splits: dict[str, Split] = field(default_factory=dict)
    windows: WindowCount | None = None
    untimed: tuple[str, ...] = ()

    def score(self, task: str) -> float | None:
        """The task's first metric: points, or an error in the unit of the numbers."""
        return next(iter(self.scores[task].metrics.values())) if task in self.scores else None

    def is_error(self, task: str) -> bool:
        """Whether less of the task's first metric is better."""
        return task in self.scores and next(iter(self.scores[task].metrics)) in ERRORS

    def mean_score(self, tasks: tuple[str, ...]) -> float | None:
        """Mean of the tasks' scores, if all of them were measured, and in points where there are several."""
        if len(tasks) > 1 and any(self.is_error(task) for task in tasks):
            return None
        scores = [self.score(task) for task in tasks]
        known = [score for score in scores if score is not None]
        return sum(known) / len(known) if known and len(known) == len(scores) else None

    def averages(self) -> dict[str, float]:
        """The published macro averages that this row's scores allow."""
        averages = {}
        for average in AVERAGES.values():
            of_split = {task: row.metrics for task, row in self.scores.items() if row.split.startswith(average.split)}
            value = average.of(of_split)
            if value is not None:
                averages[average.name] = value
        return averages


@dataclass(frozen=True)
class Table:
    """Rows in the order of the bench, the baseline first.

    Attributes:
        allowed: what was joined although it differs, in words.
        described: name -> task, GLUE's first, each group in the order of its table or of the documents.
    """

    baseline: str
    tasks: tuple[str, ...]
    loads: tuple[str, ...]
    rows: tuple[Row, ...]
    allowed: tuple[str, ...] = ()
    described: dict[str, Task] = field(default_factory=dict)

    def less_is_better(self, tasks: tuple[str, ...]) -> bool:
        """Whether a lower mean score of these tasks is the better one."""
        return any(row.is_error(task) for row in self.rows for task in tasks)

    def metrics(self, task: str) -> list[str]:
        return next((list(row.scores[task].metrics) for row in self.rows if task in row.scores), [])


def build_table(scores: list[Scores], latency: Latency, *, allow_different: tuple[str, ...] = ()) -> Table:
    """Joins score documents (one a task) and a latency document.

    A score and a timing belong together where they ran the same file on the same runtime (by hash). A model that was
    not timed itself takes the timing under its own label, if that is of the same architecture: the models of several
    tasks or seeds are timed once.

    Args:
        allow_different: `"machines"` or `"data"`: join what was measured on several of them; the table says so.

    Raises:
        InvalidInput: documents of different machines or data, or of different models under one label.
    """
    allowed = _check_comparable(scores, latency, allow_different)
    described = _described(scores)
    timed = {row.label: row for row in latency.rows}
    scored: dict[str, dict[str, ScoredRow]] = {}
    named = {label: (row.name, row.runtime) for label, row in timed.items()}
    untimed: dict[str, tuple[str, ...]] = {}
    for document in scores:
        for row in document.rows:
            label, itself = _timing_of(row, timed)
            named.setdefault(label, (row.name, row.runtime))
            if not itself:
                untimed[label] = (*untimed.get(label, ()), row.task)
            of_label = scored.setdefault(label, {})
            if row.task in of_label:
                raise InvalidInput(
                    "a row must have one score a task",
                    got=f"two of {label!r} on {row.task}"
                    + (f": {row.label!r} is the same file" if row.label != label else ""),
                    repair="give each --scores file once, and each model one name",
                )
            of_label[row.task] = row
    baseline = latency.baseline
    differences = _differences(scored, scores, baseline)
    splits = engine_splits(latency)
    labels = sorted([*timed, *(label for label in scored if label not in timed)], key=lambda label: label != baseline)
    tasks = {task for of_label in scored.values() for task in of_label}
    return Table(
        baseline=baseline,
        tasks=tuple(row_name for task in described.values() for row_name in task.rows if row_name in tasks),
        loads=tuple(latency.loads),
        rows=tuple(
            Row(
                label=label,
                name=named[label][0],
                runtime=named[label][1],
                sizes=_sizes(timed[label]) if label in timed else _floor_sizes(scored[label]),
                scores=scored.get(label, {}),
                differences=differences.get(label, {}),
                timings=timed[label].loads if label in timed else {},
                splits=splits.get(label, {}),
                windows=_windows(timed.get(label), scored.get(label, {})),
                untimed=untimed.get(label, ()),
            )
            for label in labels
        ),
        allowed=allowed,
        described=described,
    )


def _described(scores: list[Scores]) -> dict[str, Task]:
    """Name -> task of the documents, GLUE's in the order of its table, then one's own.

    Raises:
        InvalidInput: two tasks of one name.
    """
    known: dict[str, Task] = {}
    for document in scores:
        task = document.described_task
        other = known.setdefault(task.name, task)
        if (other.labels, other.kind, other.metrics) != (task.labels, task.kind, task.metrics):
            raise InvalidInput(
                "two tasks of one report must have two names",
                got=f"two of the name {task.name!r}, with other labels or measures",
                repair="score both with the same data and --measure, or rename the data of one",
            )
    glue = {name: known[name] for name in TASKS if name in known}
    return glue | {name: task for name, task in known.items() if name not in glue}


def _sizes(row: TimedRow) -> dict[str, Any]:
    """The sizes that were measured."""
    return {name: getattr(row, name) for name in _SIZES if getattr(row, name) is not None}


def _floor_sizes(scores: dict[str, ScoredRow]) -> dict[str, Any]:
    """The size of what is not timed but by its scoring."""
    known = [run.file_bytes for row in scores.values() for run in row.runs if run.file_bytes is not None]
    return {"file_bytes": known[0]} if known else {}


def _windows(timed: TimedRow | None, scores: dict[str, ScoredRow]) -> WindowCount | None:
    """In how many windows a row read texts, where it read them in several."""
    counts = [None if timed is None else timed.windows, *(row.runs[0].windows for row in scores.values())]
    return next((count for count in counts if count is not None), None)


def _timing_of(score: ScoredRow, timed: dict[str, TimedRow]) -> tuple[str, bool]:
    """The label a score's row gets, and whether its timing, if it has one, is of the very file that was scored."""
    hashes = {run.model_sha256 for run in score.runs}
    same_file = [label for label, row in timed.items() if row.runtime == score.runtime and row.model_sha256 in hashes]
    if same_file:
        return score.label if score.label in same_file else same_file[0], True
    timing = timed.get(score.label)
    if timing is None:
        return score.label, True
    for run in score.runs:
        if run.architecture_sha256 != timing.architecture_sha256:
            raise InvalidInput(
                "scores and timings under one label must be of one architecture",
                got=f"{score.label!r} scored as {run.directory} and timed as {timing.directory}",
                repair="give them different names: NAME=DIR:RUNTIME",
            )
        if Path(run.directory).resolve() == Path(timing.directory).resolve():
            raise InvalidInput(
                "scores and timings of one directory must be of one file",
                got=f"{run.directory}, changed between the two",
                repair="score and time it again",
            )
    return score.label, False


def _check_comparable(scores: list[Scores], latency: Latency, allow_different: tuple[str, ...]) -> tuple[str, ...]:
    """Refuses what was measured on different machines or data, or says so where it is allowed."""
    for name in allow_different:
        if name not in DIFFERENCES:
            raise InvalidInput(
                f"--allow-different must be {' or '.join(DIFFERENCES)}", got=repr(name), repair="use one of them"
            )
    allowed = []
    machines = sorted({measured.machine for measured in (latency.environment, *(one.environment for one in scores))})
    if len(machines) > 1:
        _refuse_unless(allow_different, "machines", "scores and timings must come from one kind of machine", machines)
        allowed.append(f"measured on different machines: {'; '.join(machines)}")
    for task in dict.fromkeys(document.task for document in scores):
        of_task = [document for document in scores if document.task == task]
        data = {document.data["sha256"] for document in of_task}
        if latency.traffic is not None and latency.traffic.task == task:
            data.add(latency.traffic.data["sha256"])
        lengths = {str(document.max_length) for document in of_task if document.max_length is not None}
        for what, values in (("data set", data), ("length", lengths)):
            if len(values) > 1:
                rule = f"scores and traffic of a task must be of one {what}"
                _refuse_unless(allow_different, "data", rule, [f"{value} for {task}" for value in sorted(values)])
                allowed.append(f"{task} of more than one {what}: {', '.join(sorted(values))}")
    return tuple(allowed)


def _refuse_unless(allow_different: tuple[str, ...], name: str, rule: str, values: list[str]) -> None:
    if name not in allow_different:
        raise InvalidInput(
            rule,
            got=" and ".join(values),
            repair=f"measure all alike, or add --allow-different {name}: the report says so",
        )


def _differences(
    scored: dict[str, dict[str, ScoredRow]], scores: list[Scores], baseline: str
) -> dict[str, dict[str, Difference]]:
    """Label -> report task -> difference of its score to the baseline's on the same examples."""
    differences: dict[str, dict[str, Difference]] = {}
    for document in scores:
        task = document.described_task
        for row_name, labels in document.references.items():
            base = scored.get(baseline, {}).get(row_name)
            if base is None or len(base.runs[0].predictions) != len(labels):
                continue
            for label, of_label in scored.items():
                row = of_label.get(row_name)
                if label == baseline or row is None or not any(row is other for other in document.rows):
                    continue
                ours, theirs = row.metrics[task.metrics[0]], base.metrics[task.metrics[0]]
                if ours is None or theirs is None:
                    continue
                of_runs = (sample(row.runs, labels, task), sample(base.runs, labels, task))
                delta = difference(*of_runs, task, points=rounded(task.metrics[0], ours - theirs))
                if delta is not None:
                    differences.setdefault(label, {})[row_name] = delta
    return differences
