"""Documents that some verbs write and others read: the shapes that their readers rely on, and what must hold between their parts."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Discriminator, Field, Tag, with_config
from typing_extensions import NotRequired, TypedDict

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.environment import FORMAT
from hf_albert_plus.files import read_json
from hf_albert_plus.glue import TASKS, Task

# Their other keys stay as they are.
_open = with_config(ConfigDict(extra="allow"))
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


@_open
class Head(TypedDict):
    """What tells documents apart."""

    kind: NotRequired[Any]
    format: NotRequired[Any]


@_open
class Origin(TypedDict):
    path: str
    sha256: str


@_open
class Versions(TypedDict):
    torch: str
    onnxruntime: str


@_open
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


@_open
class Run(TypedDict):
    """A run of a scored row."""

    directory: Place
    seed: int | None
    model_sha256: str
    architecture_sha256: str
    predictions: list[Size]
    average_layers: NotRequired[Size]


@_open
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


@_open
class Scores(TypedDict):
    """What `albert-plus eval --json` writes."""

    task: str
    protocol: str
    data: Origin
    max_length: Count | None
    references: dict[str, list[Size]]
    rows: Annotated[list[ScoredRow], Field(min_length=1)]
    environment: Machine


@_open
class WarmUp(TypedDict):
    calls: Count
    stable: bool


@_open
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


@_open
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


@_open
class Ceiling(TypedDict):
    gops_per_s: Size
    library: str


@_open
class Traffic(TypedDict):
    task: str
    data: Origin


class LoadedMachine(Machine):
    load_average_after: Number | None


@_open
class Latency(TypedDict):
    """What `albert-plus bench --json` writes."""

    baseline: str
    loads: Annotated[list[Place], Field(min_length=1)]
    ceilings: dict[str, Ceiling]
    rows: Annotated[list[TimedRow], Field(min_length=1)]
    traffic: NotRequired[Traffic | None]
    environment: LoadedMachine


Layers = Annotated[int, Field(ge=1, le=10_000)]
Map = Annotated[list[Count], Field(min_length=1)]


Nothing = Annotated[dict[str, Any], Field(max_length=0)]


@_open
class Encoder(TypedDict):
    """An encoder of another library's architecture."""

    model_type: str
    num_hidden_layers: Layers
    hidden_size: Count


class AlbertPlusEncoder(Encoder):
    """One of ours."""

    embedding_size: Count
    num_attention_heads: Count
    intermediate_size: Count
    attention_map: Map
    ffn_map: Map
    block_attention_heads: NotRequired[Map]
    block_intermediate_sizes: NotRequired[Map]


class EncoderWithExits(AlbertPlusEncoder):
    exit_layers: list[int]
    exit_head: str
    exit_criterion: str | None
    exit_threshold: Size | None


def _kind_of_encoder(encoder: Any) -> str:
    if not isinstance(encoder, dict) or encoder.get("model_type") != "albert_plus":
        return "other"
    return "exits" if "exit_layers" in encoder else "albert_plus"


AnyEncoder = Annotated[
    Annotated[Encoder, Tag("other")]
    | Annotated[AlbertPlusEncoder, Tag("albert_plus")]
    | Annotated[EncoderWithExits, Tag("exits")],
    Discriminator(_kind_of_encoder),
]


class Parameters(TypedDict):
    stored: Count
    effective: Count


@_open
class Phase(TypedDict):
    """A phase of a distillation."""

    terms: str
    steps: Count
    examples: Count
    learning_rate: Number
    precision: str
    train_seconds: Number | str
    losses: NotRequired[dict[str, Number]]


@_open
class TrainingResult(TypedDict):
    phases: NotRequired[dict[str, Phase]]


@_open
class TrainingSettings(TypedDict):
    max_length: Count


class Training(TypedDict):
    """The record of a training."""

    stage: str
    command: str
    settings: TrainingSettings
    parents: dict[str, Origin]
    result: TrainingResult
    finished: str


@_open
class CardScore(TypedDict):
    label: str
    runtime: str
    task: str
    split: str
    examples: Count
    glue_examples: Count
    metrics: Metrics
    seeds: Annotated[list[int | None], Field(min_length=1)]
    in_words: dict[str, str]
    against_baseline: str
    average_layers: NotRequired[Size]


@_open
class CardSizes(TypedDict):
    file_bytes: NotRequired[Count]
    load_ms: NotRequired[Size]
    peak_rss_mb: NotRequired[Size]


class CardPace(TypedDict):
    pace: str
    speedup: str


@_open
class CardLatency(TypedDict):
    label: str
    sizes: CardSizes
    loads: dict[str, CardPace]


@_open
class Card(TypedDict):
    """The facts of a classifier's card."""

    name: str
    task: str
    data_name: str
    protocol: str
    max_length: Count | None
    encoder: AnyEncoder
    parameters: dict[str, Parameters]
    training: Training | Nothing
    scores: Annotated[list[CardScore], Field(min_length=1)]
    baseline: str
    latency: Annotated[list[CardLatency], Field(min_length=1)]
    machine: Machine


@_open
class HeldOut(TypedDict):
    step: Count
    mlm_loss: Size
    mlm_accuracy: Size
    order_accuracy: NotRequired[Size]


@_open
class PretrainingResult(TypedDict):
    unigram_entropy: Size
    held_out: list[HeldOut]
    held_out_mlm_loss: NotRequired[Size]
    held_out_mlm_accuracy: NotRequired[Size]


@_open
class Pretraining(TypedDict):
    command: str
    settings: dict[str, Any]
    result: PretrainingResult
    finished: str


@_open
class CorpusSettings(TypedDict):
    order: str
    language: str


@_open
class CorpusResult(TypedDict):
    validation_examples: Count


@_open
class Corpus(TypedDict):
    command: str
    settings: CorpusSettings
    result: CorpusResult


@_open
class FineTuned(TypedDict):
    task: str
    split: str
    examples: Count
    in_words: dict[str, str]
    seeds: list[int | None]
    command: str


class Difference(TypedDict):
    what: str
    here: str
    published: str


@_open
class PretrainingCard(TypedDict):
    """The facts of a pretrained encoder's card."""

    name: str
    encoder: AlbertPlusEncoder
    vocabulary: Count
    parameters: dict[str, Parameters]
    training: Pretraining
    corpus: Corpus
    tokenizer: str
    finetuned: list[FineTuned]
    differs: list[Difference]


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
            return f"as many predictions of {row['label']!r} as there are not labels"
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
    "Card",
    "Head",
    "Latency",
    "PretrainingCard",
    "Scores",
    "check_kind",
    "read_latency",
    "read_scores",
    "read_shaped",
]
