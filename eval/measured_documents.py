"""Documents of scores and of latency: frozen dataclasses, and the one place that writes and reads their JSON."""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from hf_albert_plus.calibration.reliability import Reliability
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.class_scores import ClassScore, Confusions, are_of
from hf_albert_plus.eval.window_counts import WindowCount
from hf_albert_plus.machine import FORMAT, environment
from hf_albert_plus.records.files import check_shape, read_json_text
from hf_albert_plus.records.limits import limited
from hf_albert_plus.records.record import Parent
from hf_albert_plus.tasks.glue import TASKS, get_task
from hf_albert_plus.tasks.task import ERRORS, Task
from hf_albert_plus.tasks.task_file import task_of

# The largest numbers that tables, plots and plans compute with.
_LARGEST = 1e15
# What points may be, up and down.
_POINTS = 100
Count = Annotated[int, limited(ge=0, le=int(_LARGEST))]
PositiveCount = Annotated[int, limited(ge=1, le=int(_LARGEST))]
Number = int | float
Size = Annotated[int | float, limited(ge=-_LARGEST, le=_LARGEST)]
Positive = Annotated[int | float, limited(ge=1e-9, le=_LARGEST)]
Measure = Size  # points, or an error in the unit of the numbers
MeasureInterval = Annotated[list[Measure], limited(min_length=2, max_length=2)]
Ratios = Annotated[list[Positive], limited(min_length=2, max_length=2)]
Metrics = Annotated[dict[str, Measure | None], limited(min_length=1)]
# Runtimes of rows that no engine runs: a file of predictions, and a classifier of the floor.
PREDICTIONS, FLOOR = "predictions", "floor"
# It becomes a part of file names.
Name = Annotated[str, limited(pattern=r"^[^/\\\x00]+$")]
PathText = Annotated[str, limited(pattern=r"^[^\x00]+$")]
Document = TypeVar("Document")


# Fields that the JSON leaves out while they, or the one beside them, are None.
IF_KNOWN: dict[str, str | None] = {"beside": None}
WITH_FLOPS: dict[str, str | None] = {"beside": "flops"}


def to_json(value: Any) -> Any:
    """Dataclasses, also within lists and dictionaries, as JSON holds them."""
    if is_dataclass(value):
        return {name: to_json(content) for name, content in _written(value)}
    if isinstance(value, dict):
        return {key: to_json(content) for key, content in value.items()}
    # Samples are many: numbers need no look at each.
    if isinstance(value, list | tuple) and value and not isinstance(value[0], int | float | str):
        return [to_json(content) for content in value]
    return value


def _written(value: Any) -> Iterator[tuple[str, Any]]:
    """Names and values of the fields that the JSON has."""
    for each in fields(value):
        decides = each.metadata.get("beside", each.name) or each.name
        if "beside" not in each.metadata or getattr(value, decides) is not None:
            yield each.name, getattr(value, each.name)


@dataclass(frozen=True, kw_only=True)
class Environment:
    """The machine that measured, as `machine.environment` says it."""

    processor: str
    cores: PositiveCount
    threads: PositiveCount
    affinity: list[int] | None
    governor: str | None
    load_average: Number | None
    memory_gib: Number
    features: list[str]
    platform: str
    versions: dict[str, str]

    @classmethod
    def here(cls, *, threads: int | None) -> "Environment":
        return cls(**environment(threads=threads))

    @property
    def machine(self) -> str:
        """What must agree before two measurements stand in one table."""
        cores = f"{self.cores} cores, {self.memory_gib} GiB, {' '.join(self.features)}"
        return f"{self.processor} ({cores}) with {self.threads} threads"


@dataclass(frozen=True, kw_only=True)
class LoadedEnvironment(Environment):
    """A machine with its load average after the last measurement too."""

    load_average_after: Number | None


@dataclass(frozen=True, kw_only=True)
class BatchingPace:
    """How fast a run was with one way to make batches, of tags in words too (those that are cut among them), and the seconds of each round."""

    batching: str
    sentences_per_s: Size
    words_per_s: Size | None = field(default=None, metadata=IF_KNOWN)
    seconds: list[Size]


@dataclass(frozen=True, kw_only=True)
class ScoredRun:
    """A run of a scored row: a model directory, or a file of predictions.

    Attributes:
        seconds: median of the first way of batching; None of a file of predictions, as `throughput`.
        metrics: name -> points, or an error in the unit of the numbers; None where it is undefined.
        file_bytes: of a classifier of the floor, which nothing else measures.
        predictions: label ids, values for regression, the ids of each row's labels where there may be several, or the texts of spans.
        logits: of several labels, a list a row; None of a file of predictions.
        classes, confusions, reliability: of a task of one's own, where it has them.
        average_layers, windows: that a text ran and was read in, of a graph with exits and where long texts are read in several.
    """

    directory: PathText
    seed: int | None
    metrics: dict[str, Measure | None] = field(default_factory=dict)
    seconds: Size | None = field(default=None, metadata=IF_KNOWN)
    throughput: list[BatchingPace] | None = field(default=None, metadata=IF_KNOWN)
    model_sha256: str
    architecture_sha256: str
    file_bytes: Count | None = field(default=None, metadata=IF_KNOWN)
    predictions: list[Size | list[Count] | str]
    logits: list[list[Size]] | None = field(default=None, metadata=IF_KNOWN)
    classes: list[ClassScore] | None = field(default=None, metadata=IF_KNOWN)
    confusions: Confusions | None = field(default=None, metadata=IF_KNOWN)
    reliability: Reliability | None = field(default=None, metadata=IF_KNOWN)
    average_layers: Size | None = field(default=None, metadata=IF_KNOWN)
    windows: WindowCount | None = field(default=None, metadata=IF_KNOWN)


@dataclass(frozen=True, kw_only=True)
class ScoredRow:
    """The scores of one label on one split.

    Attributes:
        metrics: name -> the median of its runs; None where a run leaves it undefined.
        spread: name -> lowest and highest of the runs.
        intervals: name -> bootstrap interval.
    """

    label: str
    name: Name
    runtime: str
    task: str
    split: str
    examples: PositiveCount
    glue_examples: PositiveCount | None
    metrics: Metrics
    spread: dict[str, MeasureInterval | None] = field(default_factory=dict)
    intervals: dict[str, MeasureInterval | None]
    runs: Annotated[list[ScoredRun], limited(min_length=1)]

    @property
    def differs_from_glue(self) -> bool:
        """Whether the split has another number of rows than GLUE's."""
        return self.glue_examples is not None and self.examples != self.glue_examples


@dataclass(frozen=True, kw_only=True)
class Scores:
    """What `albert-plus eval --json` writes.

    Attributes:
        max_length: None of files of predictions.
        references: report row -> its labels.
        own_task: what a user's own task is, as `task.json` says it; None of a benchmark's.
    """

    kind: str = "scores"
    format: int = FORMAT
    task: str
    own_task: dict[str, Any] | None = field(default=None, metadata=IF_KNOWN)
    protocol: str
    data: Parent
    max_length: Count | None
    references: dict[str, list[Size | list[Count] | list[str]]]
    rows: Annotated[list[ScoredRow], limited(min_length=1)]
    environment: Environment

    @property
    def described_task(self) -> Task:
        """The task that was scored.

        Raises:
            InvalidInput: it is none that there is.
        """
        return get_task(self.task) if self.own_task is None else task_of(self.own_task, where="own_task")


@dataclass(frozen=True, kw_only=True)
class WarmedUp:
    """Calls before the first counted one, and whether the last two windows of them agreed."""

    calls: Count
    stable: bool


@dataclass(frozen=True, kw_only=True)
class Percentiles:
    """Percentiles of samples, their number, and how many lie far above the others."""

    p50_ms: Positive
    p90_ms: Positive
    p95_ms: Positive
    p99_ms: Positive
    max_ms: Positive
    samples: PositiveCount
    outliers: Count


@dataclass(frozen=True, kw_only=True)
class Cell(Percentiles):
    """The timings of a row under a load.

    Attributes:
        speedup: over the baseline in the same rounds.
        rounds: samples in ms of each round.
        flops: of a batch; None of traffic, as `gops_per_s` and `attained`.
        attained: share of the ceiling; None where there is none.
        mean_batch, kept_up: sentences that the server scenario answered together, and whether it did as fast as they came.
    """

    items_per_s: Positive
    speedup: Positive
    speedup_interval: Ratios
    warm_up: WarmedUp
    rounds: Annotated[list[Annotated[list[Positive], limited(min_length=1)]], limited(min_length=1)]
    flops: Count | None = field(default=None, metadata=IF_KNOWN)
    gops_per_s: Size | None = field(default=None, metadata=IF_KNOWN)
    attained: Size | None = field(default=None, metadata=WITH_FLOPS)
    mean_batch: Size | None = field(default=None, metadata=IF_KNOWN)
    kept_up: bool | None = field(default=None, metadata=IF_KNOWN)

    @property
    def fell_behind(self) -> bool:
        return self.kept_up is False

    @property
    def samples_ms(self) -> list[float]:
        return [value for block in self.rounds for value in block]


@dataclass(frozen=True, kw_only=True)
class TimedRow:
    """A target that was timed.

    Attributes:
        effective_parameters: parameters of the model that computes the same with nothing shared.
        sequence_flops: operations of the products of one sequence of 128 tokens, or of all positions; a multiplication and an addition are two.
        load_ms, load_mb, peak_rss_mb: to open it from cold files in a process of its own; what that adds once libraries are imported; of all.
        loads, windows: load -> its timings; and windows of a text of the traffic, where long ones are read in several.
    """

    label: str
    name: Name
    runtime: str
    directory: PathText
    parameters: Count | None = None
    effective_parameters: Count | None = None
    sequence_flops: Count | None = None
    published_training_speedup: Size | None = None
    file_bytes: Count | None = None
    load_ms: Size | None = None
    load_mb: Size | None = None
    peak_rss_mb: Size | None = None
    model_sha256: str
    architecture_sha256: str
    loads: dict[str, Cell]
    windows: WindowCount | None = field(default=None, metadata=IF_KNOWN)


@dataclass(frozen=True, kw_only=True)
class Ceiling:
    """The fastest product of two large matrices, in 1e9 operations a second, and the library that reached it."""

    gops_per_s: Size
    library: str


@dataclass(frozen=True, kw_only=True)
class TrafficSource:
    """Where the sentences of traffic come from."""

    task: str
    data: Parent


@dataclass(frozen=True, kw_only=True)
class Latency:
    """What `albert-plus bench --json` writes."""

    kind: str = "latency"
    format: int = FORMAT
    baseline: str
    loads: Annotated[list[PathText], limited(min_length=1)]
    ceilings: dict[str, Ceiling]
    rows: Annotated[list[TimedRow], limited(min_length=1)]
    traffic: TrafficSource | None = None
    environment: LoadedEnvironment


def read_scores(path: Path) -> Scores:
    """A document of `albert-plus eval --json`.

    Raises:
        InvalidInput: another one, or one whose parts do not belong together.
    """
    repair = "measure again: albert-plus eval … --json"
    scores = _read(path, Scores, kind="scores", what="--scores", repair=repair)
    fault: str | None = f"the task {scores.task!r}"
    if scores.own_task is not None or scores.task in TASKS:
        task = scores.described_task
        fault = _fault_of_rows(scores, task) if task.name == scores.task else fault
    if fault is not None:
        raise InvalidInput("the parts of a scores file must belong together", got=f"{fault} in {path}", repair=repair)
    return scores


def _fault_of_rows(scores: Scores, task: Task) -> str | None:
    """What is wrong with the first row that is none of the task's."""
    for row in scores.rows:
        labels = scores.references.get(row.task)
        if row.task not in task.rows:
            return f"a row of {row.task!r} among those of {task.name}"
        if set(row.metrics) != set(task.metrics) or not set(task.metrics) <= set(row.intervals):
            return (
                f"the metrics {', '.join(row.metrics)} of {row.label!r}, and {task.name} has {', '.join(task.metrics)}"
            )
        if not labels or any(len(run.predictions) != len(labels) for run in row.runs):
            return f"another number of predictions of {row.label!r} than of labels"
        if any(not _fits(run.logits, rows=len(labels), columns=task.num_labels) for run in row.runs):
            return f"logits of {row.label!r} that are not {task.num_labels} for each of its {len(labels)} labels"
        if any(not are_of(task, run.classes, run.confusions) for run in row.runs):
            return f"classes of {row.label!r} that are not those of {task.name}"
        for name, value in _measures(row):
            if name not in ERRORS and abs(value) > _POINTS:
                return f"{value:g} points of {name} of {row.label!r}"
    return None


def _fits(logits: list[list[Size]] | None, *, rows: int, columns: int) -> bool:
    return logits is None or (len(logits) == rows and all(len(row) == columns for row in logits))


def _measures(row: ScoredRow) -> Iterator[tuple[str, float]]:
    """Every value of a row's metrics, bounds of intervals included."""
    for of_metric in (row.metrics, *(run.metrics for run in row.runs)):
        yield from ((name, value) for name, value in of_metric.items() if value is not None)
    for bounds in (row.spread, row.intervals):
        yield from ((name, value) for name, pair in bounds.items() if pair is not None for value in pair)


def read_latency(path: Path) -> Latency:
    """A document of `albert-plus bench --json`.

    Raises:
        InvalidInput: another one, or one whose parts do not belong together.
    """
    repair = "measure again: albert-plus bench … --json"
    latency = _read(path, Latency, kind="latency", what="--bench", repair=repair)
    labels = [row.label for row in latency.rows]
    if latency.baseline not in labels or len(set(labels)) < len(labels):
        got = f"the baseline {latency.baseline!r} among the rows {', '.join(labels)} in {path}"
        raise InvalidInput("a latency file must have one row a label, its baseline's too", got=got, repair=repair)
    return latency


def _read(path: Path, shape: type[Document], *, kind: str, what: str, repair: str) -> Document:
    """A document; keys that its dataclass does not name are passed over."""
    text, content = read_json_text(path, what=what, repair=repair)
    if isinstance(content, dict):
        _check_kind(content, kind=kind)
    document: Document = check_shape(text, shape, what=what, source=str(path), repair=repair)
    return document


def _check_kind(content: dict[str, Any], *, kind: str) -> None:
    """Refuses documents of another verb, or of another version."""
    verb = "eval" if kind == "scores" else "bench"
    if content.get("kind") != kind:
        raise InvalidInput(
            f"a {kind} file must come from albert-plus {verb} --json",
            got=f"a file of kind {content.get('kind')!r}",
            repair="swap --scores and --bench, or measure again",
        )
    if content.get("format") != FORMAT:
        raise InvalidInput(
            f"a {kind} file must be of format {FORMAT}",
            got=f"one of format {content.get('format', 1)}, from another version",
            repair=f"measure again: albert-plus {verb} … --json",
        )
