"""The distillation stage: a teacher and data in, a student directory out, phase after phase."""

from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path
from typing import Any

from ..checkpoints import check_trainable, load_config
from ..errors import InvalidInput, suggest
from ..files import file_sha256
from ..finetune import fits_positions
from ..glue import TASKS, Task, data_parent
from ..records import Record, parent, run_stage
from ..training import TrainSettings
from .checks import check_phase, check_task, check_words
from .dual_training.vocabularies import check_own_vocabulary
from .methods import Layers, Method, get_method
from .phases import Phase
from .students import StudentSettings, student_architecture, student_config
from .teachers import check_teacher
from .tokenizers import open_tokenizers

DEFAULT = "kd-hidden"


@dataclass(frozen=True)
class DistilSettings:
    """How a student learns.

    Attributes:
        method: a name of `METHODS`.
        student: which student.
        values: the method's settings that differ from its defaults.
        epochs, learning_rate: of every phase that `values` says nothing of; None takes the method's.
        phases: names or patterns of the phases to run, with commas; None runs all.
        text: a text file for the phases on text; None lets them read the task's own texts.
        general_teacher: the teacher of the phases on text; None takes the teacher.
    """

    method: str = DEFAULT
    student: StudentSettings = field(default_factory=StudentSettings)
    values: tuple[tuple[str, Any], ...] = ()
    epochs: float | None = None
    learning_rate: float | None = None
    phases: str | None = None
    text: Path | None = None
    general_teacher: str | None = None

    def __post_init__(self) -> None:
        epochs = 1 if self.epochs is None else self.epochs
        TrainSettings(epochs, batch_size=1, learning_rate=5e-5 if self.learning_rate is None else self.learning_rate)
        for name, _ in self.values:
            if name not in self.row.defaults:
                raise InvalidInput(
                    f"--set must name a setting of {self.method} or a field of AlbertPlusConfig",
                    got=repr(name),
                    repair=suggest(name, list(self.row.defaults)),
                )

    @property
    def row(self) -> Method:
        return get_method(self.method)

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

    def chosen(self, layers: Layers) -> tuple[Phase, ...]:
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
                        f"--phases must name phases of {self.method}",
                        got=repr(pattern),
                        repair=suggest(pattern, [phase.name for phase in phases]),
                    )
            phases = tuple(phase for phase in phases if any(fnmatch(phase.name, pattern) for pattern in patterns))
        chosen = tuple(phase for phase in phases if phase.epochs > 0)
        if not chosen:
            raise InvalidInput("a phase must have epochs", got="none", repair="raise --epochs or leave out --phases")
        return chosen

    def reads_task(self, phase: Phase) -> bool:
        return phase.rows != "text" or self.text is None

    def describe(self, phases: tuple[Phase, ...]) -> dict[str, Any]:
        return {
            "method": self.method,
            "student": self.student.student,
            "overrides": dict(self.student.overrides),
            "initialise": self.student.initialise or self.row.initialise,
            **self.settings,
            "phases": [phase.name for phase in phases],
        }


def distill(
    teacher: str,
    *,
    data: str | None,
    task: Task | None,
    output: Path,
    settings: TrainSettings,
    method: DistilSettings,
    checkpoint_seconds: float = 60,
) -> Record:
    """Trains a student by a method, phase after phase. A killed run goes on in its phase, at its last checkpoint.

    Args:
        teacher: directory or Hub id of a classifier fine-tuned on the task, or of any encoder where every phase is on text.
        data, task: None where every phase reads `method.text`: the student is then an encoder without a classifier.
        output: the directory to make: model, tokenizer, record.json.
        settings: what the phases have in common; epochs and learning rate are each phase's own.

    Raises:
        InvalidInput: parts that do not fit together, found before anything is trained.
    """
    phases = check_distillation(teacher, data=data, task=task, settings=settings, method=method)
    if not any(method.reads_task(phase) for phase in phases):
        data = task = None

    def work(directory: Path) -> dict[str, Any]:
        from .materials import Materials
        from .run import Run

        materials = Materials(teacher, data=data, task=task, directory=directory, settings=settings, method=method)
        return Run(materials, phases, checkpoint_seconds=checkpoint_seconds).execute()

    parents: dict[str, Any] = {"teacher": parent(teacher)}
    if data is not None and task is not None:
        parents["data"] = data_parent(data, task)
    if method.text is not None:
        parents["text"] = {"path": str(method.text), "sha256": file_sha256(method.text)}
    if method.general_teacher is not None:
        parents["general_teacher"] = parent(method.general_teacher)
    if Path(method.student.student).is_dir():
        parents["student"] = parent(method.student.student)
    common = {key: value for key, value in settings.describe().items() if key not in ("epochs", "learning_rate")}
    return run_stage(
        "distill",
        output,
        settings={"task": task.name if task else "none", **common, **method.describe(phases)},
        parents=parents,
        work=work,
        resumable=True,
    )


def check_distillation(
    teacher: str, *, data: str | None, task: Task | None, settings: TrainSettings, method: DistilSettings
) -> tuple[Phase, ...]:
    """The phases to run, once everything is sure to fit together.

    Raises:
        InvalidInput: whatever does not.
    """
    source = load_config(teacher, option="--teacher")
    if method.text is not None and not method.text.is_file():
        raise InvalidInput("--text must be a text file", got=str(method.text), repair="check the path")
    if method.row.own_vocabulary:
        check_own_vocabulary(method.student.student, teacher=method.general_teacher or teacher, method=method.method)
    student = student_architecture(source, method.student)
    phases = method.chosen(Layers(student=student.num_hidden_layers, teacher=source.num_hidden_layers))
    if method.student.has_weights:
        trains_exits = "exits" in phases[-1].needs
        check_trainable(method.student.student, student, option="--student", trains_exits=trains_exits)
    first = next((phase for phase in phases if method.reads_task(phase)), None)
    if first is not None:
        if task is None or data is None:
            raise InvalidInput(
                f"the phase {first.name} of {method.method} reads a task: --data and --task must be given",
                got="none",
                repair="add --data nyu-mll/glue --task sst2" + (", or --text FILE" if first.rows == "text" else ""),
            )
        check_teacher(source, task, name=teacher)
        check_task(method.row, task)
    config = student_config(source, task=task or stand_in(), settings=method.student, method=method.row)
    general_name = method.general_teacher or teacher
    general = load_config(general_name, option="--general-teacher")
    for limit in (config, source, general):
        fits_positions(limit, settings.max_length)
    tokenizers = open_tokenizers(
        teacher, general_teacher=method.general_teacher, student=method.student.student, config=config
    )
    for phase in phases:
        replace(settings, epochs=phase.epochs, learning_rate=phase.learning_rate)
        if phase.rows == "text":
            check_words(phase, general_name, general)
        if phase.of_teacher and not phase.trains_teacher:
            check_phase(phase, student=config, teacher=general if phase.rows == "text" else source)
        tokenizers.check(phase, method=method.method)
    return phases


def stand_in() -> Task:
    """The task whose classifier a student without a task has while it learns; it is not saved."""
    return TASKS["sst2"]


__all__ = ["DEFAULT", "DistilSettings", "check_distillation", "distill", "stand_in"]
