"""Documents that some verbs write and others read: the shapes that their readers rely on, and what must hold between their parts."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, with_config
from typing_extensions import NotRequired, TypedDict

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.environment import FORMAT
from hf_albert_plus.files import read_json
from hf_albert_plus.glue import TASKS, Task

# Their other keys stay as they are.
open_shape = with_config(ConfigDict(extra="allow"))
# The largest numbers that tables, plots and plans compute with.
_LARGEST = 1e15
Count = Annotated[int, Field(ge=0, le=int(_LARGEST))]
Some = Annotated[int, Field(ge=1, le=int(_LARGEST))]
Number = int | float
Size = Annotated[int | float, Field(ge=-_LARGEST, le=_LARGEST)]
Positive = Annotated[int | float, Field(ge=1e-9, le=_LARGEST)]
Points = Annotated[int | float, Field(ge=-100, le=100)]
Interval = Annotated[list[Points], Field(min_length=2, max_length=2)]
Ratios = Annotated[list[Positive], Field(min_length=2, max_length=2)]
Metrics = Annotated[dict[str, Points | None], Field(min_length=1)]
# It becomes a part of file names.
Name = Annotated[str, Field(pattern=r"^[^/\\\x00]+$")]
Place = Annotated[str, Field(pattern=r"^[^\x00]+$")]


@open_shape
class Head(TypedDict):
    """What tells documents apart."""

    kind: NotRequired[Any]
    format: NotRequired[Any]


@open_shape
class Origin(TypedDict):
    path: str
    sha256: str


@open_shape
class Versions(TypedDict):
    torch: str
    onnxruntime: str


@open_shape
class Machine(TypedDict):
    """What `environment` says."""

    processor: str
    cores: Some
    threads: Some
    affinity: list[int] | None
    governor: str | None
    load_average: Number | None
    memory_gib: Number
    features: list[str]
    platform: str
    versions: Versions


@open_shape
class Run(TypedDict):
    """A run of a scored row."""

    directory: Place
    seed: int | None
    model_sha256: str
    architecture_sha256: str
    predictions: list[Size]
    average_layers: NotRequired[Size]


@open_shape
class ScoredRow(TypedDict):
    label: str
    name: Name
    runtime: str
    task: str
    split: str
    examples: Some
    glue_examples: Some
    metrics: Metrics
    intervals: dict[str, Interval | None]
    runs: Annotated[list[Run], Field(min_length=1)]


@open_shape
class Scores(TypedDict):
    """What `albert-plus eval --json` writes."""

    task: str
    protocol: str
    data: Origin
    max_length: Count | None
    references: dict[str, list[Size]]
    rows: Annotated[list[ScoredRow], Field(min_length=1)]
    environment: Machine


@open_shape
class WarmUp(TypedDict):
    calls: Count
    stable: bool


@open_shape
class Cell(TypedDict):
    """The timings of a row under a load."""

    p50_ms: Positive
    p90_ms: Positive
    p95_ms: Positive
    p99_ms: Positive
    max_ms: Positive
    samples: Some
    outliers: Count
    items_per_s: Positive
    speedup: Positive
    speedup_interval: Ratios
    warm_up: WarmUp
    rounds: Annotated[list[Annotated[list[Positive], Field(min_length=1)]], Field(min_length=1)]
    flops: NotRequired[Count]
    attained: NotRequired[Size | None]
    kept_up: NotRequired[bool]


@open_shape
class TimedRow(TypedDict):
    label: str
    name: Name
    runtime: str
    directory: Place
    model_sha256: str
    architecture_sha256: str
    parameters: NotRequired[Count | None]
    effective_parameters: NotRequired[Count | None]
    file_bytes: NotRequired[Count | None]
    load_ms: NotRequired[Size | None]
    load_mb: NotRequired[Size | None]
    peak_rss_mb: NotRequired[Size | None]
    published_training_speedup: NotRequired[Size | None]
    loads: dict[str, Cell]


@open_shape
class Ceiling(TypedDict):
    gops_per_s: Size
    library: str


@open_shape
class Traffic(TypedDict):
    task: str
    data: Origin


class LoadedMachine(Machine):
    load_average_after: Number | None


@open_shape
class Latency(TypedDict):
    """What `albert-plus bench --json` writes."""

    baseline: str
    loads: Annotated[list[Place], Field(min_length=1)]
    ceilings: dict[str, Ceiling]
    rows: Annotated[list[TimedRow], Field(min_length=1)]
    traffic: NotRequired[Traffic | None]
    environment: LoadedMachine


def read_shaped(path: Path, shape: Any, *, what: str, repair: str) -> dict[str, Any]:
    """A document of a shape, its keys in the order of the file, which a TypedDict does not keep.

    Raises:
        InvalidInput: another one.
    """
    read_json(path, what=what, shape=shape, repair=repair)
    content: dict[str, Any] = read_json(path, what=what, repair=repair)
    return content


def read_scores(path: Path) -> dict[str, Any]:
    """A document of `albert-plus eval --json`.

    Raises:
        InvalidInput: another one, or one whose parts do not belong together.
    """
    repair = "measure again: albert-plus eval … --json"
    check_kind(read_json(path, what="--scores", shape=Head, repair=repair), kind="scores")
    scores = read_shaped(path, Scores, what="--scores", repair=repair)
    _check_scores(scores, path=path, repair=repair)
    return scores


def _check_scores(scores: dict[str, Any], *, path: Path, repair: str) -> None:
    task = TASKS.get(scores["task"])
    found = f"the task {scores['task']!r}" if task is None else _stray_row(scores, task)
    if found is not None:
        raise InvalidInput("the parts of a scores file must belong together", got=f"{found} in {path}", repair=repair)


def _stray_row(scores: dict[str, Any], task: Task) -> str | None:
    """What is wrong with the first row that is none of the task's."""
    for row in scores["rows"]:
        labels = scores["references"].get(row["task"])
        if row["task"] not in task.rows:
            return f"a row of {row['task']!r} among those of {task.name}"
        if set(row["metrics"]) != set(task.metrics) or not set(task.metrics) <= set(row["intervals"]):
            return f"the metrics {', '.join(row['metrics'])} of {row['label']!r}, and {task.name} has {', '.join(task.metrics)}"
        if not labels or any(len(run["predictions"]) != len(labels) for run in row["runs"]):
            return f"another number of predictions of {row['label']!r} than of labels"
    return None


def read_latency(path: Path) -> dict[str, Any]:
    """A document of `albert-plus bench --json`.

    Raises:
        InvalidInput: another one, or one whose parts do not belong together.
    """
    repair = "measure again: albert-plus bench … --json"
    check_kind(read_json(path, what="--bench", shape=Head, repair=repair), kind="latency")
    latency = read_shaped(path, Latency, what="--bench", repair=repair)
    labels = [row["label"] for row in latency["rows"]]
    if latency["baseline"] not in labels or len(set(labels)) < len(labels):
        found = f"the baseline {latency['baseline']!r} among the rows {', '.join(labels)}"
        raise InvalidInput("a latency file must have one row a label, its baseline's too", got=f"{found} in {path}", repair=repair)  # fmt: skip
    return latency


def check_kind(document: Any, *, kind: str) -> None:
    """Refuses documents of another verb, or of another version.

    Raises:
        InvalidInput: such a document.
    """
    verb = "eval" if kind == "scores" else "bench"
    if document.get("kind") != kind:
        raise InvalidInput(
            f"a {kind} file must come from albert-plus {verb} --json",
            got=f"a file of kind {document.get('kind')!r}",
            repair="swap --scores and --bench, or measure again",
        )
    if document.get("format") != FORMAT:
        raise InvalidInput(
            f"a {kind} file must be of format {FORMAT}",
            got=f"one of format {document.get('format', 1)}, from another version",
            repair=f"measure again: albert-plus {verb} … --json",
        )


__all__ = [
    "Head",
    "Latency",
    "Scores",
    "check_kind",
    "read_latency",
    "read_scores",
    "read_shaped",
]
