"""The distillation stage: a teacher and data in, a student directory out, phase after phase."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from ..checkpoints import check_trainable
from ..config_files import load_config
from ..errors import InvalidInput
from ..records.files import file_sha256
from ..records.record import Record, parent
from ..records.stage import run_stage
from ..tasks.own_data import texts_parent
from ..tasks.rows import fits_positions
from ..tasks.splits import data_parent
from ..tasks.task import Task
from ..training.settings import TrainSettings
from .checks import check_own_vocabulary, check_phase, check_task, check_words
from .phases import Phase, layers_of
from .segment_rows import check_order
from .sentence_students import check_spaces, check_vectors, form_of_teacher
from .settings import DistilSettings, stand_in
from .students import student_architecture, student_config
from .teacher_answers import check_answers, config_of_start, start_of
from .teachers import check_teacher, open_tokenizers


def distill(
    teacher: str | None,
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
        teacher: directory or Hub id of a classifier fine-tuned on the task, or of any encoder where every phase is on text, or where the
            data hold its answers (`method.soft_labels`); None where a student's directory is all that there is beside them.
        data, task: None where every phase reads `method.text`: the student is then an encoder without a classifier.
        output: the directory to make: model, tokenizer, record.json.
        settings: what the phases have in common; epochs and learning rate are each phase's own.

    Raises:
        InvalidInput: parts that do not fit together, found before anything is trained.
    """
    method = method.of_task(task)
    phases = check_distillation(teacher, data=data, task=task, settings=settings, method=method)
    if not any(method.reads_task(phase) for phase in phases):
        data = task = None

    def work(directory: Path) -> dict[str, Any]:
        from .materials import Materials
        from .run import MethodRun

        materials = Materials(
            start_of(teacher, method)[0], data=data, task=task, directory=directory, settings=settings, method=method
        )
        return MethodRun(materials, phases, checkpoint_seconds=checkpoint_seconds).execute().describe()

    parents: dict[str, Any] = {} if teacher is None else {"teacher": parent(teacher)}
    if data is not None and task is not None:
        parents["data"] = data_parent(data, task)
    if method.text is not None:
        parents["text"] = {"path": str(method.text), "sha256": file_sha256(method.text)}
    if method.unlabelled is not None:
        parents["unlabelled"] = texts_parent(method.unlabelled)
    if method.general_teacher is not None:
        parents["general_teacher"] = parent(method.general_teacher)
    if Path(method.student.student).is_dir():
        parents["student"] = parent(method.student.student)
    common = {key: value for key, value in settings.describe().items() if key not in ("epochs", "learning_rate")}
    return run_stage(
        "distill",
        output,
        settings={**(task.settings if task else {"task": "none"}), **common, **method.describe(phases)},
        parents=parents,
        work=work,
        resumable=True,
    )


def check_distillation(
    teacher: str | None, *, data: str | None, task: Task | None, settings: TrainSettings, method: DistilSettings
) -> tuple[Phase, ...]:
    """The phases to run, once everything is sure to fit together.

    Raises:
        InvalidInput: whatever does not.
    """
    if method.row.vectors:
        check_vectors(teacher, data=data, method=method)
    start, option = start_of(teacher, method)
    source = config_of_start(start, option, task=task, method=method)
    if method.text is not None and not method.text.is_file():
        raise InvalidInput("--text must be a text file", got=str(method.text), repair="check the path")
    if method.row.own_vocabulary:
        check_own_vocabulary(method.student.student, teacher=method.general_teacher or start, method=method.name)
    student = student_architecture(source, method.student)
    phases = method.chosen(layers_of(student, source))
    if method.text is not None and any(phase.asks_order for phase in phases):
        check_order(method.text, max_length=settings.max_length)
    if method.student.has_weights:
        trains_exits = "exits" in phases[-1].needs
        check_trainable(method.student.student, student, option="--student", trains_exits=trains_exits)
    first = next((phase for phase in phases if method.reads_task(phase)), None)
    if first is not None:
        if task is None or data is None:
            raise InvalidInput(
                f"the phase {first.name} of {method.name} reads a task: --data and --task must be given",
                got="none",
                repair="add --data nyu-mll/glue --task sst2" + (", or --text FILE" if first.rows == "text" else ""),
            )
        check_task(method.row, task, phases)
    if (
        check_answers(phases, data=data, task=task, teacher=teacher, method=method)
        and task is not None
        and first is not None
    ):
        check_teacher(load_config(start, option=option), task, name=start)
    config = student_config(source, task=task or stand_in(), settings=method.student, method=method.row)
    general_name = method.general_teacher or start
    general = load_config(general_name, option="--general-teacher")
    if method.row.vectors:
        check_spaces(phases, student=config, teacher=source)
        form_of_teacher(start, phases[-1])
    for limit in (config, source, general):
        fits_positions(limit, settings.max_length)
    tokenizers = open_tokenizers(
        start, general_teacher=method.general_teacher, student=method.student.student, config=config
    )
    for phase in phases:
        replace(settings, epochs=phase.epochs, learning_rate=phase.learning_rate)
        if phase.rows == "text":
            check_words(phase, general_name, general)
        if phase.of_teacher and not phase.trains_teacher:
            check_phase(phase, student=config, teacher=general if phase.rows == "text" else source)
        tokenizers.check(phase, method=method.name, task=task)
    return phases
