"""How a student is distilled, which architecture it has, and how its data is augmented."""

from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ..conversion.settings import Initialisation
from ..errors import InvalidInput, check_values, seed_rule, suggest
from ..option import Option, PythonOnly
from ..tasks.glue import TASKS
from ..tasks.task import Task
from ..training.settings import TrainSettings, check_rates

if TYPE_CHECKING:
    from .phases import Layers, Method, Phase

DEFAULT = "kd-hidden"
# Learns from a teacher's answers alone.
_OF_ANSWERS = "kd"
_BY_TASK = "auto"


@dataclass(frozen=True)
class StudentSettings:
    """Which student, and where its weights start."""

    student: Annotated[
        str,
        Option(
            "third (a third of the teacher's layers, E at most 128), half (half of them, all shared), a variant, or a model directory: "
            "with weights these are the start, with a config.json alone it is an architecture. auto is third for your own data and half "
            "for GLUE's."
        ),
    ] = _BY_TASK
    overrides: Annotated[
        tuple[tuple[str, Any], ...],
        PythonOnly(
            "--set has these config fields: any of third, half or a variant; of a directory those of exits and dropout, and num_hidden_layers where "
            "its blocks are shared, as an all-shared encoder is as deep as its config says"
        ),
    ] = ()
    initialise: Annotated[
        Initialisation | None,
        Option(
            "Student's start: of the teacher's layers the average, first or svd; random; or embeddings: where its layers cannot be the "
            "start, its embeddings and heads are. Default: the method's."
        ),
    ] = None

    def of_task(self, task: Task | None) -> "StudentSettings":
        """The same with `auto` replaced by the student that a task has by default."""
        if self.student != _BY_TASK:
            return self
        return replace(self, student="half" if task is None or task.benchmark else "third")

    @property
    def has_weights(self) -> bool:
        return any((Path(self.student) / name).is_file() for name in _WEIGHTS)


_WEIGHTS = ("model.safetensors", "model.safetensors.index.json")


@dataclass(frozen=True)
class PhaseTraining(TrainSettings):
    """What the phases of a distillation have in common; their epochs and learning rates are the method's."""

    epochs: Annotated[float, PythonOnly("each phase has its own")] = 1.0
    batch_size: Annotated[
        int, Option("Examples a step, over all processes. Default: the task's own.", of_task=True)
    ] = 32
    learning_rate: Annotated[float, PythonOnly("each phase has its own")] = 5e-5


@dataclass(frozen=True)
class DistilSettings:
    """How a student learns."""

    method: Annotated[
        str | None,
        Option(
            "How the student learns: a name of --list-methods. Default: kd-hidden; kd where --soft-labels are given."
        ),
    ] = None
    student: Annotated[StudentSettings, PythonOnly("its own fields are options")] = field(
        default_factory=StudentSettings
    )
    values: Annotated[
        tuple[tuple[str, Any], ...], PythonOnly("--set has the method's settings that differ from its defaults")
    ] = ()
    epochs: Annotated[
        float | None,
        Option("Passes over the rows in each phase; phases called layer-N share them. Default: the method's."),
    ] = None
    learning_rate: Annotated[float | None, Option("Peak learning rate of each phase. Default: the method's.")] = None
    phases: Annotated[str | None, Option("Run these phases alone: names or patterns with commas, such as general.")] = (
        None
    )
    text: Annotated[
        Path | None, Option("Text for the phases on text, a paragraph a line. Default: the task's own texts.")
    ] = None
    general_teacher: Annotated[
        str | None, Option("Teacher of the phases on text: a pretrained model. Default: --teacher.")
    ] = None
    soft_labels: Annotated[
        str | None,
        Option(
            "Column of your data with a teacher's probabilities or logits, as score --logits writes them: then --teacher may be an "
            "encoder to start from, or be left out where --student is a model directory."
        ),
    ] = None
    unlabelled: Annotated[
        str | None,
        Option(
            "More texts, which the teacher answers or has answered (--soft-labels): a file or folder of csv, tsv, jsonl or parquet "
            "with the task's text columns or one called text, or a .txt with a text a line."
        ),
    ] = None

    def __post_init__(self) -> None:
        check_rates(self, epochs="epochs", learning_rate="learning_rate")
        for name, _ in self.values:
            if name not in self.row.defaults:
                raise InvalidInput(
                    f"--set must name a setting of {self.name} or a field of AlbertPlusConfig",
                    got=repr(name),
                    repair=suggest(name, list(self.row.defaults)),
                )

    @property
    def row(self) -> "Method":
        from .methods import get_method  # opens torch

        return get_method(self.name)

    @property
    def name(self) -> str:
        """The method's name."""
        return self.method or (DEFAULT if self.soft_labels is None else _OF_ANSWERS)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Every setting of the method."""
        common = {"epochs": self.epochs, "learning_rate": self.learning_rate}
        values = dict(self.row.defaults)
        for name in values:
            for kind, value in common.items():
                if value is not None and (name == kind or name.endswith(f"_{kind}")):
                    values[name] = float(value)
        return {**values, **dict(self.values)}

    def chosen(self, layers: "Layers") -> "tuple[Phase, ...]":
        """The phases to run.

        Raises:
            InvalidInput: a name or pattern of `phases` is no phase's, or none is left.
        """
        phases = self.row.phases(layers, self.settings)
        if self.phases is not None:
            patterns = [pattern.strip() for pattern in self.phases.split(",")]
            for pattern in patterns:
                if not any(fnmatch(phase.name, pattern) for phase in phases):
                    raise InvalidInput(
                        f"--phases must name phases of {self.name}",
                        got=repr(pattern),
                        repair=suggest(pattern, [phase.name for phase in phases]),
                    )
            phases = tuple(phase for phase in phases if any(fnmatch(phase.name, pattern) for pattern in patterns))
        chosen = tuple(phase for phase in phases if phase.epochs > 0)
        # A task's rows are one segment each, or two that are no neighbours in a text.
        chosen = tuple(phase.without_order() if self.reads_task(phase) else phase for phase in chosen)
        if not chosen:
            raise InvalidInput("a phase must have epochs", got="none", repair="raise --epochs or leave out --phases")
        return chosen

    def of_task(self, task: Task | None) -> "DistilSettings":
        """The same with the student that a task has by default where none was chosen."""
        return replace(self, student=self.student.of_task(task))

    def reads_task(self, phase: "Phase") -> bool:
        return phase.rows not in ("text", "sentences") or self.text is None

    def describe(self, phases: "tuple[Phase, ...]") -> dict[str, Any]:
        answers = {"soft_labels": self.soft_labels, "unlabelled": self.unlabelled}
        return {
            "method": self.name,
            **{name: value for name, value in answers.items() if value is not None},
            "student": self.student.student,
            "overrides": dict(self.student.overrides),
            "initialise": self.student.initialise or self.row.initialise,
            **self.settings,
            "phases": [phase.name for phase in phases],
        }


def stand_in() -> Task:
    """The task whose classifier a student without a task has while it learns; it is not saved."""
    return TASKS["sst2"]


@dataclass(frozen=True)
class AugmentSettings:
    """How much is replaced. The defaults are TinyBERT's N_a, p_t and K."""

    copies: Annotated[int, Option("Copies of each row.")] = 20
    probability: Annotated[float, Option("Probability of replacing a word that has candidates.")] = 0.4
    candidates: Annotated[int, Option("Words that a replacement is drawn from.")] = 15
    seed: Annotated[int, Option("Seed of the replacements.")] = 42

    def __post_init__(self) -> None:
        check_values(
            self,
            ("copies", 1 <= self.copies <= 10_000, "at least 1 and at most 10,000", "20"),
            ("probability", 0 < self.probability <= 1, "greater than 0 and at most 1", "0.4"),
            ("candidates", 1 <= self.candidates <= 10_000, "at least 1 and at most 10,000", "15"),
            seed_rule(self.seed),
        )

    def describe(self) -> dict[str, Any]:
        return asdict(self)
