"""What a task is: the columns that hold its texts, and what is to be said of them. GLUE's are rows of a table; a user's own is one more."""

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from ..errors import InvalidInput, suggest
from .long_texts import CUT, LongTexts
from .tag_schemes import TagScheme

# One class of several, any number of labels together, a number, a tag for each word, or a question's answer as a span of its context.
Kind = Literal["classes", "labels", "number", "tags", "spans"]
ProblemType = Literal["single_label_classification", "multi_label_classification", "regression"]
KINDS: tuple[Kind, ...] = ("classes", "labels", "number", "tags", "spans")
_PROBLEMS: dict[Kind, ProblemType] = {
    "classes": "single_label_classification",
    "labels": "multi_label_classification",
    "number": "regression",
}
# Kind -> what it is measured by. The first one is *the* score where nothing else is asked for.
MEASURES: dict[Kind, tuple[str, ...]] = {
    "classes": ("accuracy", "macro_f1", "weighted_f1", "matthews"),
    "labels": ("micro_f1", "macro_f1", "average_precision"),
    "number": ("pearson", "spearman", "rmse"),
    "tags": ("entity_f1", "entity_precision", "entity_recall", "tag_accuracy"),
    "spans": ("answer_f1", "exact_match"),
}
# Of tags without entities.
_PLAIN = ("tag_accuracy",)
# Of spans where a question may have no answer: those with one, and those without.
_OF_BOTH = ("answered_f1", "answered_exact_match", "no_answer_accuracy")
# Kind -> the suffix of the classes whose models answer it, where it is no answer to a whole text.
_HEADS: dict[Kind, str] = {"tags": "ForTokenClassification", "spans": "ForQuestionAnswering"}
# What answers of a kind are of, where they are of parts of a text.
_PARTS: dict[Kind, str] = {"tags": "a tag for each word", "spans": "a span of its context for each question"}
# Measures in the unit of the numbers, better the lower. All others are points, better the higher.
ERRORS = frozenset({"rmse"})


def measures_of(kind: Kind, scheme: TagScheme | None = None, *, may_lack_answer: bool | None = None) -> tuple[str, ...]:
    """What a task is measured by."""
    if scheme == "plain":
        return _PLAIN
    return MEASURES[kind] + (_OF_BOTH if may_lack_answer else ())


def check_answers_texts(task: "Task", *, what: str, repair: str) -> None:
    """Refuses a task of tags or spans where one answer to a text is read.

    Raises:
        InvalidInput: such a task.
    """
    if task.answers_parts:
        raise InvalidInput(
            f"{what} is for tasks with an answer to each text",
            got=f"{task.name}, which has {task.parts}",
            repair=repair,
        )


def check_no_spans(task: "Task", *, what: str, repair: str) -> None:
    """Refuses a task of spans.

    Raises:
        InvalidInput: such a task.
    """
    if task.has_spans:
        raise InvalidInput(
            f"{what} is for tasks of labels, numbers or tags",
            got=f"{task.name}, which has {task.parts}",
            repair=repair,
        )


@dataclass(frozen=True)
class HeldOut:
    """A validation split that the training data gave up, as they had none.

    Attributes:
        of: hash of the data that it was taken from; data with another hash are whole.
        share: of the rows, in the mean.
        seed: decides which.
        near_copies: whether rows with nearly the same text are on one side. Tasks of earlier versions say nothing of it: of these, rows
            with equal texts are.
    """

    of: str
    share: float = 0.1
    seed: int = 42
    near_copies: bool = False


@dataclass(frozen=True, kw_only=True)
class Task:
    """One task.

    Attributes:
        columns: text columns, one or a pair.
        labels: label names in the order of their ids; empty for a number.
        kind: what a row's label is.
        metrics: the first one is *the* score where one number is shown.
        label_columns: the column of the label, or a column of 0 and 1 for each label.
        epochs, batch_size: plain fine-tuning defaults: small sets are seen more often.
        max_length: longest input in tokens, as a model was trained.
        long: what happens to texts that are longer, in training and in all that asks its models.
        bounds: smallest and largest number of the training rows.
        tag_scheme: how tags say where entities begin and end.
        may_lack_answer: of spans, whether some questions have no answer in their context; None of other kinds.
        held_out: the validation split, where the data have none of their own.
        validation_file: where the validation split is, if not with the data.
        benchmark: whose task it is; None of a user's own.
        title: as published: the folder of the TSV distribution, and the file of a submission.
        sizes: split -> rows that the benchmark has in it.
        evaluation: report row -> split it is scored on. MNLI's two halves are rows of their own.
        tests: file of a submission -> split that it answers.
        trained_as: the task whose models answer this one, where it has no training split.
        protocol: version of the data.
    """

    name: str
    columns: tuple[str, ...]
    labels: tuple[str, ...] = ()
    kind: Kind = "classes"
    metrics: tuple[str, ...]
    label_columns: tuple[str, ...] = ("label",)
    epochs: float
    batch_size: int
    max_length: int = 128
    long: LongTexts = CUT
    bounds: tuple[float, float] | None = None
    tag_scheme: TagScheme | None = None
    may_lack_answer: bool | None = None
    held_out: HeldOut | None = None
    validation_file: str | None = None
    benchmark: str | None = None
    title: str = ""
    sizes: dict[str, int] = field(default_factory=dict)
    evaluation: dict[str, str] = field(default_factory=dict)
    tests: dict[str, str] = field(default_factory=dict)
    trained_as: str | None = None
    protocol: str = "own data"

    @property
    def is_regression(self) -> bool:
        return self.kind == "number"

    @property
    def has_own_unit(self) -> bool:
        """Whether its labels are numbers in a unit of their own; a benchmark's stay as its papers have them."""
        return self.is_regression and not self.benchmark

    @property
    def has_several_labels(self) -> bool:
        """Whether any number of labels may hold of a row."""
        return self.kind == "labels"

    @property
    def has_tags(self) -> bool:
        """Whether each word of a row has a label: its tag."""
        return self.kind == "tags"

    @property
    def has_spans(self) -> bool:
        """Whether each row is a question, whose answer is a span of its context."""
        return self.kind == "spans"

    @property
    def answers_parts(self) -> bool:
        """Whether its answers are of parts of a text, not one of the whole."""
        return self.kind in _PARTS

    @property
    def parts(self) -> str:
        """What it has in place of an answer to each text, in words."""
        return _PARTS[self.kind]

    @property
    def head(self) -> str:
        """The suffix of the classes whose models answer it."""
        return _HEADS.get(self.kind, "ForSequenceClassification")

    @property
    def is_scored_by_error(self) -> bool:
        """Whether less of its score is better, which is then in the unit of the numbers."""
        return self.metrics[0] in ERRORS

    @property
    def num_labels(self) -> int:
        return max(len(self.labels), 1)

    @property
    def label_names(self) -> list[str]:
        """The names of a classifier's outputs."""
        return list(self.labels) or ["score"]

    @property
    def problem_type(self) -> ProblemType | None:
        """What transformers calls the kind; it has no name for tags and spans, whose models are of classes of their own."""
        return _PROBLEMS.get(self.kind)

    @property
    def rows(self) -> dict[str, str]:
        """Report row -> split it is scored on, the judging one first; a user's own test split may be missing."""
        own = {self.name: "validation", **({} if self.benchmark else {f"{self.name}-test": "test"})}
        return self.evaluation or own

    @property
    def judging_split(self) -> str:
        """The split that anything is chosen by."""
        return next(iter(self.rows.values()))

    @property
    def submission(self) -> dict[str, str]:
        return self.tests or {self.title: "test"}

    @property
    def settings(self) -> dict[str, Any]:
        """How a record names the task: a benchmark's by its name, a user's own by all that decides how data are read."""
        facts = asdict(self)
        long = {} if self.long.is_cut else {"long": facts["long"]}
        if self.benchmark:
            return {"task": self.name, **long}
        kept = ("columns", "label_columns", "kind", "labels", "held_out")
        if self.held_out is not None and not self.held_out.near_copies:  # as earlier versions wrote it
            del facts["held_out"]["near_copies"]
        return {"task": self.name, "task_rows": {name: facts[name] for name in kept}, **long}

    def measured_by(self, measure: str | None) -> "Task":
        """The task with another metric as its score.

        Raises:
            InvalidInput: a metric that its kind does not have.
        """
        if measure is None:
            return self
        known = list(
            dict.fromkeys(
                [*self.metrics, *measures_of(self.kind, self.tag_scheme, may_lack_answer=self.may_lack_answer)]
            )
        )
        if measure not in known:
            raise InvalidInput(
                f"--measure must be one of those of {self.name}", got=repr(measure), repair=suggest(measure, known)
            )
        return replace(self, metrics=(measure, *(name for name in self.metrics if name != measure)))
