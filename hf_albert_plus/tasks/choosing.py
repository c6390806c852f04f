"""Which task a verb works on: the one that is named, the one that a model carries, or the one that is found in the data."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import InvalidInput, suggest
from .data_settings import DataSettings
from .dataset_tables import is_dataset_directory, is_on_hub
from .glue import TASKS, get_task
from .own_data import find_task, for_training, read_as
from .split_files import files_of_rows
from .task import Task, check_no_spans
from .task_file import read_task


def choose_task(
    data: str,
    *,
    name: str | None = None,
    settings: DataSettings | None = None,
    model: str | Path | None = None,
    trains: bool = False,
) -> Task:
    """The task of data.

    Args:
        data: a benchmark's folder or Hub id, or data of one's own.
        name: a GLUE task, or a directory that carries a task; None takes the model's, or finds the task in the data.
        settings: what is said of the columns.
        model: the directory or Hub id that the verb reads. Where it is a classifier with the labels that are found in the data, the
            task has them in its order. Long texts are read as it reads them, unless the settings say otherwise.
        trains: whether the verb learns from the rows, so that data without a validation split give one up.

    Raises:
        InvalidInput: a name that is none, settings that a benchmark's task or one of spans does not take, or data that no task can be
            found in.
    """
    settings = settings or DataSettings()
    task = _chosen(data, name=name, settings=settings, model=model, trains=trains)
    long = settings.long_texts(task.long)
    if not long.is_cut:
        check_no_spans(task, what=f"--long {long.way}", repair="leave it out: long contexts are always read in windows")
    return replace(task, long=long)


def _chosen(data: str, *, name: str | None, settings: DataSettings, model: str | Path | None, trains: bool) -> Task:
    named = None if name is None else named_task(name)
    of_model = None if model is None else read_task(model)
    if named is not None and named.benchmark:
        return _of_benchmark(as_trained(named, of_model), settings)
    carried = named or of_model
    if carried is not None and carried.benchmark and (settings.names_columns or _is_own(data, carried)):
        carried = None
    if carried is None:
        return _in_order_of(model, find_task(data, settings))
    if carried.benchmark:
        return _of_benchmark(carried, settings)
    chosen = read_as(carried, settings)
    return for_training(chosen, data) if trains else chosen


def _is_own(data: str, benchmark: Task) -> bool:
    """Whether data are plainly none of a benchmark's: a file, what `datasets` saved, a configuration on the Hub, or a folder with files of data and
    without a folder of the task's name."""
    path = Path(data)
    if not path.is_dir():
        return path.is_file() or (is_on_hub(data) and ":" in data)
    folders = {each.name.lower() for each in path.iterdir() if each.is_dir()}
    if {benchmark.name.lower(), benchmark.title.lower()} & folders:
        return False
    return is_dataset_directory(data) or bool(files_of_rows(path))


def named_task(name: str) -> Task:
    """The task of a name: one of GLUE's, or the one that a directory carries.

    Raises:
        InvalidInput: a name that is neither.
    """
    if name in TASKS:
        return get_task(name)
    carried = read_task(name) if Path(name).is_dir() else None
    if carried is None:
        raise InvalidInput(
            "--task must be a GLUE task, or a directory with a task.json",
            got=repr(name),
            repair=f"{suggest(name, list(TASKS))}; leave it out for data of your own",
        )
    return carried


def _of_benchmark(task: Task, settings: DataSettings) -> Task:
    if settings.names_columns or settings.validation is not None:
        raise InvalidInput(
            f"the columns and splits of {task.name} are GLUE's",
            got="options that name others",
            repair="leave out --task for data of your own, or leave out the options",
        )
    return task.measured_by(settings.measure)


def as_trained(task: Task, of_model: Task | None) -> Task:
    """A benchmark's task that is named, with long texts as a model of it reads them, where it does not just cut them."""
    if of_model is None or of_model.long.is_cut or of_model.name not in (task.name, task.trained_as):
        return task
    return replace(task, long=of_model.long, max_length=of_model.max_length)


def _in_order_of(model: str | Path | None, task: Task) -> Task:
    """The task with its labels numbered as a classifier has them, if it has just these."""
    if model is None or not task.labels:
        return task
    from ..config_files import load_config
    from ..heads import answers

    config: Any = load_config(model, option="the model of the task")
    names = [str(config.id2label[i]) for i in sorted(config.id2label)] if answers(config, task) else []
    if len(names) != len(task.labels) or sorted(names) != sorted(task.labels):
        return task
    return replace(task, labels=tuple(names))
