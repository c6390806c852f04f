"""Shapes of the facts that a card is written from, a classifier's and a pretrained encoder's: what a card does not name stays as it is."""

from typing import Annotated, Any

from pydantic import ConfigDict, Discriminator, Field, Tag, with_config
from typing_extensions import NotRequired, TypedDict

from hf_albert_plus.eval.measured_documents import Count, Metrics, Number, PositiveCount, Size
from hf_albert_plus.eval.window_counts import WindowCount

# Their other keys stay as they are.
open_shape = with_config(ConfigDict(extra="allow"))
Layers = Annotated[int, Field(ge=1, le=10_000)]
Map = Annotated[list[Count], Field(min_length=1)]


Nothing = Annotated[dict[str, Any], Field(max_length=0)]


@open_shape
class CardOrigin(TypedDict):
    """What a training read."""

    path: str
    sha256: str


@open_shape
class CardVersions(TypedDict):
    """Libraries that a card names."""

    torch: str
    onnxruntime: str


@open_shape
class CardMachine(TypedDict):
    """The machine that a card's latency was measured on."""

    processor: str
    cores: PositiveCount
    threads: PositiveCount
    affinity: list[int] | None
    governor: str | None
    load_average: Number | None
    memory_gib: Number
    features: list[str]
    platform: str
    versions: CardVersions


class CardHub(TypedDict):
    """What the Hub's metadata say of where a model comes from."""

    base_model: NotRequired[str]
    base_model_relation: NotRequired[str]
    license: NotRequired[str]
    language: NotRequired[str]
    datasets: NotRequired[list[str]]


@open_shape
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


@open_shape
class Phase(TypedDict):
    """A phase of a distillation."""

    terms: str
    steps: Count
    examples: Count
    learning_rate: Number
    precision: str
    train_seconds: Number | str
    losses: NotRequired[dict[str, Number]]


@open_shape
class TrainingResult(TypedDict):
    phases: NotRequired[dict[str, Phase]]


@open_shape
class TrainingSettings(TypedDict):
    max_length: NotRequired[Count]


class Training(TypedDict):
    """The record of a training."""

    stage: str
    command: str
    settings: TrainingSettings
    parents: dict[str, CardOrigin]
    result: TrainingResult
    finished: str


@open_shape
class CardStage(TypedDict):
    """A stage behind a model.

    Attributes:
        read: name -> path and hash.
        made: what it made; left out where no record names it.
        versions: of the code, with its commit where that is known, and of the libraries.
    """

    stage: str
    command: str
    settings: dict[str, Any]
    seed: NotRequired[int | None]
    read: dict[str, CardOrigin]
    made: NotRequired[CardOrigin]
    finished: str
    versions: dict[str, str]


@open_shape
class ChosenRows(TypedDict):
    """The rows that something was found on.

    Attributes:
        what: `exits`, whose threshold it is; `scores`, whose temperatures; or the file of a graph, whose own threshold.
        rows: their number; left out, as all below, where no record knows them.
        of: `split`, or of training rows `set aside` or `held out`.
        are_scored: whether the card's scores are of the same rows.
    """

    what: str
    rows: NotRequired[Count]
    split: NotRequired[str]
    of: NotRequired[str]
    are_scored: NotRequired[bool]


class CardClass(TypedDict):
    label: str
    f1: Size
    support: Count


class CardConfusion(TypedDict):
    label: str
    predicted: str
    rows: Count


class CardRun(TypedDict):
    """One run of several, by its seed."""

    seed: int | None
    metrics: Metrics


@open_shape
class CardScore(TypedDict):
    label: str
    runtime: str
    task: str
    split: str
    examples: Count
    glue_examples: Count | None
    metrics: Metrics
    seeds: Annotated[list[int | None], Field(min_length=1)]
    runs: NotRequired[list[CardRun]]
    in_words: dict[str, str]
    against_baseline: str
    average_layers: NotRequired[Size]
    windows: NotRequired[WindowCount]
    worst_classes: NotRequired[list[CardClass]]
    largest_confusions: NotRequired[list[CardConfusion]]
    ece: NotRequired[Size]


@open_shape
class CardSizes(TypedDict):
    file_bytes: NotRequired[Count]
    load_ms: NotRequired[Size]
    peak_rss_mb: NotRequired[Size]


class CardPace(TypedDict):
    pace: str
    speedup: str


@open_shape
class CardLatency(TypedDict):
    label: str
    sizes: CardSizes
    loads: dict[str, CardPace]


@open_shape
class Card(TypedDict):
    """The facts of a classifier's card."""

    name: str
    task: str
    hub: NotRequired[CardHub]
    data_name: str
    data_facts: NotRequired[list[Annotated[list[str], Field(min_length=2, max_length=2)]]]
    protocol: str
    max_length: Count | None
    encoder: AnyEncoder
    parameters: dict[str, Parameters]
    training: Training | Nothing
    lineage: NotRequired[list[CardStage]]
    chosen_rows: NotRequired[list[ChosenRows]]
    scores: Annotated[list[CardScore], Field(min_length=1)]
    int8_examples: NotRequired[Count]
    baseline: str
    latency: Annotated[list[CardLatency], Field(min_length=1)]
    machine: CardMachine


@open_shape
class HeldOut(TypedDict):
    step: Count
    mlm_loss: Size
    mlm_accuracy: Size
    order_accuracy: NotRequired[Size]


@open_shape
class PretrainingResult(TypedDict):
    unigram_entropy: Size
    held_out: list[HeldOut]
    held_out_mlm_loss: NotRequired[Size]
    held_out_mlm_accuracy: NotRequired[Size]


@open_shape
class Pretraining(TypedDict):
    command: str
    settings: dict[str, Any]
    result: PretrainingResult
    finished: str


@open_shape
class CorpusSettings(TypedDict):
    order: str
    language: str


@open_shape
class CorpusResult(TypedDict):
    validation_examples: Count


@open_shape
class Corpus(TypedDict):
    command: str
    settings: CorpusSettings
    result: CorpusResult


@open_shape
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


@open_shape
class PretrainingCard(TypedDict):
    """The facts of a pretrained encoder's card."""

    name: str
    hub: NotRequired[CardHub]
    encoder: AlbertPlusEncoder
    vocabulary: Count
    parameters: dict[str, Parameters]
    training: Pretraining
    corpus: Corpus
    tokenizer: str
    finetuned: list[FineTuned]
    differs: list[Difference]
