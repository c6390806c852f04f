"""Who answers the rows of a distillation: the teacher that is run, or one that has answered before, in a column of the data."""

from typing import Any

from ..checkpoints import name_labels
from ..config_files import load_config
from ..errors import InvalidInput
from ..heads import gives_labels
from ..tasks.own_data import has_column, more_texts
from ..tasks.soft_labels import SOFT_LABELS, say_agreement
from ..tasks.splits import load_split
from ..tasks.task import Task, check_answers_texts, check_no_spans
from .phases import Phase
from .settings import DistilSettings


def start_of(teacher: str | None, method: DistilSettings) -> tuple[str, str]:
    """The directory or Hub id whose tokenizer, labels aside, and weights a run starts with, and the option that names it: the teacher,
    or the student where a teacher is known by its answers alone.

    Raises:
        InvalidInput: neither is there.
    """
    if teacher is not None:
        return teacher, "--teacher"
    if method.soft_labels is None or not method.student.has_weights:
        raise InvalidInput(
            "without --teacher a student must be a model directory, and --soft-labels a column of the data",
            got=f"--student {method.student.student}" + ("" if method.soft_labels else " and no --soft-labels"),
            repair="add --teacher ENCODER to start from, or --student DIR",
        )
    return method.student.student, "--student"


def config_of_start(start: str, option: str, *, task: Task | None, method: DistilSettings) -> Any:
    """The config of what a run starts with, with the task's labels where the column of answers has them.

    Raises:
        InvalidInput: a classifier of another number of labels, beside such a column.
    """
    config = load_config(start, option=option)
    if method.soft_labels is None or task is None:
        return config
    if gives_labels(config) and config.num_labels != task.num_labels:
        raise InvalidInput(
            f"{option} must be an encoder, or a classifier with the {task.num_labels} labels of {task.name}",
            got=f"{start} with {config.num_labels} labels",
            repair="use the encoder that it was fine-tuned from",
        )
    name_labels(config, task)
    return config


def answered_before(data: str, task: Task, method: DistilSettings) -> bool:
    """Whether the labelled rows have the column of answers: they must where no other rows are read."""
    if method.soft_labels is None:
        return False
    return task.benchmark is not None or method.unlabelled is None or has_column(data, task, method.soft_labels)


def check_answers(
    phases: tuple[Phase, ...], *, data: str | None, task: Task | None, teacher: str | None, method: DistilSettings
) -> bool:
    """Reads soft labels and unlabelled texts once before anything is trained. Returns whether a teacher has to answer rows itself.

    Raises:
        InvalidInput: a method or a task that takes none, values that are not the task's, or rows that nobody answers.
    """
    given = {"--soft-labels": method.soft_labels, "--unlabelled": method.unlabelled}
    option = next((name for name, value in given.items() if value is not None), None)
    if option is None:
        return True
    taught = [phase for phase in phases if phase.rows == "task" and phase.of_teacher]
    if task is None or data is None or not taught:
        raise InvalidInput(
            f"{option} is for a phase that learns a task from a teacher's answers",
            got=f"--method {method.name} with {', '.join(phase.name for phase in phases)}" + ("" if data else ", and no --data"),
            repair="use --method kd and --data",
        )  # fmt: skip
    if method.soft_labels is None:
        check_no_spans(
            task, what="--unlabelled", repair="leave it out, and let --teacher answer the questions of --data"
        )
        _texts(task, method)
        return True
    check_answers_texts(task, what="--soft-labels", repair="leave it out, and let --teacher answer the rows of --data")
    inside = next((phase for phase in phases if phase.of_teacher and not phase.caches_answers), None)
    if inside is not None:
        raise InvalidInput(
            "--soft-labels teach by predictions alone",
            got=f"the phase {inside.name} of {method.name}, which reads a teacher's inside",
            repair="use --method kd",
        )
    before = answered_before(data, task, method)
    if before:
        rows = load_split(data, task, "train", soft_labels=method.soft_labels)
        say_agreement(rows[SOFT_LABELS][:], list(rows["label"]), task, where="the training rows")
    unanswered = [] if before else [data]
    if method.unlabelled is not None and SOFT_LABELS not in _texts(task, method).column_names:
        unanswered.append(method.unlabelled)
    if unanswered and teacher is None:
        raise InvalidInput(
            f"without --teacher every row must have the column {method.soft_labels!r}",
            got=f"none in {' and '.join(unanswered)}",
            repair=f"add it, or name the teacher that answers {'them' if len(unanswered) > 1 else 'these'}: --teacher DIR",
        )
    return bool(unanswered)


def _texts(task: Task, method: DistilSettings) -> Any:
    assert method.unlabelled is not None
    return more_texts(method.unlabelled, task, soft_labels=method.soft_labels)
