"""Methods and their phases: a phase trains terms together on one kind of rows, and maps student layers to teacher layers."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ..conversion.settings import Initialisation
from ..errors import InvalidInput, suggest
from ..text.formats import Order
from .capture import Need
from .sentence_rows import Cut
from .terms import Labels, SentenceOrder, SoftTargets, Term

Rows = Literal["task", "text", "sentences", "pairs"]
# Of a sentence encoder: as it says itself, or one that is told.
VectorPooling = Literal["teacher", "mean", "cls"]


@dataclass(frozen=True)
class Phase:
    """One training of a method.

    Attributes:
        terms: added up by weight.
        rows: `"task"` the task's labelled rows; `"text"` unlabelled text, or the task's own rows where none is given;
            `"sentences"` those of unlabelled text, each by itself; `"pairs"` the two texts of the task's rows one by one.
        epochs: passes over the rows; 0 leaves the phase out.
        layer_map: see `layer_map`.
        trains: what is trained: everything, or the exits alone.
        mask_smoothing: words are masked in proportion to count^-this.
        turn: the student's layer, from 1, that learns in it: those below and the embeddings learn at `lower_rate_share` of its learning
            rate, and what is above does not; None where all learn alike.
        order: what rows of text are labelled by, which are pairs of segments then.
        dual_share: the share of the words that the teacher reads in the student's vocabulary, where it is trained beside
            the student; None where it teaches as it is.
        cut: what of unlabelled text is a row where rows are sentences: a sentence or a line.
        pooling: how a sentence encoder that does not say so makes vectors; "teacher" where it must say so.
    """

    name: str
    terms: tuple[Term, ...]
    rows: Rows = "task"
    epochs: float = 1.0
    learning_rate: float = 5e-5
    layer_map: str = "uniform"
    trains: Literal["all", "exits"] = "all"
    mask_smoothing: float = 0.0
    turn: int | None = None
    lower_rate_share: float = 1.0
    order: Order = "none"
    dual_share: float | None = None
    cut: Cut = "sentences"
    pooling: VectorPooling = "teacher"

    def __post_init__(self) -> None:
        """A term without weight is left out, with all that it would need."""
        object.__setattr__(self, "terms", tuple(term for term in self.terms if term.weight > 0))
        if not self.terms:
            raise InvalidInput(
                f"the phase {self.name} must have a loss with weight",
                got="none",
                repair="raise one of its weights with --set",
            )

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset().union(*(term.needs for term in self.terms))

    @property
    def of_teacher(self) -> frozenset[Need]:
        return frozenset().union(*(term.of_teacher for term in self.terms))

    @property
    def reads_tokens(self) -> bool:
        """Whether student and teacher are masked language models in it."""
        return any(term.reads_tokens for term in self.terms)

    @property
    def trains_teacher(self) -> bool:
        return self.dual_share is not None

    @property
    def masks_words(self) -> bool:
        return self.rows == "text" and self.reads_tokens

    @property
    def caches_answers(self) -> bool:
        """Whether the teacher's logits, or its vectors, are computed once a row: it sees every row unchanged, and nothing of its inside
        is read."""
        return self.of_teacher in (frozenset({"logits"}), frozenset({"vectors"})) and not self.masks_words

    @property
    def takes_unlabelled(self) -> bool:
        """Whether rows without a label teach in it, beside the task's."""
        return self.rows == "text" or (self.rows == "task" and bool(self.of_teacher))

    @property
    def asks_order(self) -> bool:
        """Whether it asks for the order of two segments."""
        return any(isinstance(term, SentenceOrder) for term in self.terms)

    def without_order(self) -> "Phase":
        """The same for rows that have one segment."""
        terms = tuple(term for term in self.terms if not isinstance(term, SentenceOrder))
        return replace(self, terms=terms, order="none")

    @property
    def formula(self) -> str:
        return " + ".join(f"{term.weight:g}·{term.name}" for term in self.terms)


def answers_and_labels(soft_share: float, temperature: float) -> tuple[Term, ...]:
    """What most methods end with: s·soft targets + (1 - s)·labels (Hinton, Vinyals and Dean 2015, section 2)."""
    return SoftTargets(soft_share, temperature), Labels(1 - soft_share)


LAYER_MAPS = ("uniform", "skip", "last")


def layer_map(chosen: str | Sequence[int], *, student_layers: int, teacher_layers: int) -> tuple[int, ...]:
    """The teacher's layer, counted from 1, for each of the student's M of the teacher's N layers.

    - `uniform`: m·N / M rounded down (TinyBERT, section 4.2: g(m) = 3m for 4 of 12).
    - `skip`: every (N / M rounded down)-th layer, from the first such (PKD, section 3.1).
    - `last`: the last M (PKD, section 3.1; TinyBERT's "top").
    - numbers, as a sequence or with commas: layer by layer.

    Raises:
        InvalidInput: no such map, a layer that the teacher lacks, or fewer layers in the teacher than in the student.

    Example:
        >>> layer_map("skip", student_layers=5, teacher_layers=12), layer_map("uniform", student_layers=5, teacher_layers=12)
        ((2, 4, 6, 8, 10), (2, 4, 7, 9, 12))
    """
    if not isinstance(chosen, str) or not chosen[:1].isalpha():
        return _explicit(chosen, student_layers=student_layers, teacher_layers=teacher_layers)
    if chosen not in LAYER_MAPS:
        raise InvalidInput(
            "--set layer_map must be uniform, skip, last or layers with commas",
            got=repr(chosen),
            repair=suggest(chosen, list(LAYER_MAPS)),
        )
    if student_layers > teacher_layers:
        raise InvalidInput(
            f"the layer map {chosen} needs a teacher with at least the student's {student_layers} layers",
            got=f"{teacher_layers} layers",
            repair="name a teacher layer for each: --set layer_map="
            + ",".join(str(1 + m * teacher_layers // student_layers) for m in range(student_layers)),
        )
    layers = range(1, student_layers + 1)
    if chosen == "uniform":
        return tuple(m * teacher_layers // student_layers for m in layers)
    if chosen == "skip":
        return tuple(m * (teacher_layers // student_layers) for m in layers)
    return tuple(teacher_layers - student_layers + m for m in layers)


def _explicit(chosen: str | Sequence[int], *, student_layers: int, teacher_layers: int) -> tuple[int, ...]:
    try:
        layers = tuple(int(layer) for layer in (chosen.split(",") if isinstance(chosen, str) else chosen))
    except ValueError:
        layers = ()
    if len(layers) != student_layers or not all(1 <= layer <= teacher_layers for layer in layers):
        raise InvalidInput(
            f"--set layer_map must name one of the teacher's layers 1 to {teacher_layers} for each of the student's "
            f"{student_layers}",
            got=str(chosen),
            repair="use "
            + ",".join(str(max(1, m * teacher_layers // student_layers)) for m in range(1, student_layers + 1)),
        )
    return layers


@dataclass(frozen=True)
class Layers:
    """Numbers of layers that a method's phases depend on.

    Attributes:
        shared: whether layers of the student share a block.
    """

    student: int
    teacher: int
    shared: bool = False


def layers_of(student: Any, teacher: Any) -> Layers:
    """The layers of a student's and a teacher's config; layers of another architecture than ours share nothing."""
    depth = student.num_hidden_layers
    maps = [getattr(student, name, range(depth)) for name in ("attention_map", "ffn_map")]
    shared = min(len(set(blocks)) for blocks in maps) < depth
    return Layers(student=depth, teacher=teacher.num_hidden_layers, shared=shared)


@dataclass(frozen=True)
class Method:
    """A published method: a row of the table `METHODS`.

    Attributes:
        title: its name in words.
        source: paper and section that the defaults come from.
        build: settings -> phases.
        initialise: where the student starts unless told otherwise.
        start_layers: the teacher's layers that it starts from: the first ones, or as many evenly spread (DistilBERT's
            0, 2, 4, 7, 9, 11 of 12); None for all that a block stands for.
        exits: the kind of exits that the student gets, or None.
        towers: whether the student is a two-tower model.
        own_vocabulary: whether the student has to be a directory with a tokenizer of other words than the teacher's.
        vectors: whether teacher and student are sentence encoders.
    """

    name: str
    title: str
    source: str
    build: Callable[..., tuple[Phase, ...]]
    initialise: Initialisation = "auto"
    start_layers: Literal["first", "spread"] | None = None
    exits: Literal["branch", "pooled"] | None = None
    towers: bool = False
    own_vocabulary: bool = False
    vectors: bool = False

    @property
    def defaults(self) -> dict[str, Any]:
        """Its settings with their defaults."""
        parameters = list(inspect.signature(self.build).parameters.values())[1:]
        return {parameter.name: parameter.default for parameter in parameters}

    def phases(self, layers: Layers, settings: dict[str, Any] | None = None) -> tuple[Phase, ...]:
        """The phases of a student and a teacher with these numbers of layers.

        Raises:
            InvalidInput: a value of another kind than the default's, or one that no number of its kind may be.
        """
        values = {**self.defaults, **(settings or {})}
        for name, value in values.items():
            _check(self, name, value)
        return self.build(layers, **values)


_LARGEST = 1_000_000
_KINDS = {float: "a number", int: "a whole number", bool: "true or false", str: "a word"}


def _check(method: Method, name: str, value: Any) -> None:
    default = method.defaults[name]
    if name == "layer_map":
        return  # checked beside the layers that it maps
    right = isinstance(value, int | float) if isinstance(default, float) else type(value) is type(default)
    if not right or isinstance(value, bool) is not isinstance(default, bool):
        raise InvalidInput(
            f"--set {name} of {method.name} must be {_KINDS[type(default)]}",
            got=repr(value),
            repair=f"use --set {name}={default}",
        )
    if not isinstance(value, bool | str) and not abs(value) <= _LARGEST:
        raise InvalidInput(
            f"--set {name} must be a number up to {_LARGEST:,}", got=value, repair=f"use --set {name}={default}"
        )
    positive = name == "temperature" or name.endswith(("_heads", "learning_rate"))
    share = name.endswith("_share")
    if not isinstance(value, bool | str) and (
        value < 0
        or (positive and value == 0)
        or (share and value > 1)
        or (name.endswith("learning_rate") and value >= 1)
    ):
        rule = "lie between 0 and 1" if share else "be greater than 0" if positive else "be at least 0"
        raise InvalidInput(f"--set {name} must {rule}", got=value, repair=f"use --set {name}={default}")


def check_word(name: str, value: str, known: tuple[str, ...]) -> None:
    """Refuses a setting that is none of the words it may be.

    Raises:
        InvalidInput: another word.
    """
    if value not in known:
        raise InvalidInput(
            f"--set {name} must be one of {', '.join(known)}", got=repr(value), repair=suggest(value, list(known))
        )
