"""The options of verbs that read data, and the task that they choose."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from ..errors import InvalidInput
from ..hub_connection import check_data, check_model
from ..option import Option
from ..records.progress import say
from ..tasks.choosing import choose_task, named_task
from ..tasks.data_settings import DataSettings
from ..tasks.own_data import in_words
from ..tasks.task import Task
from .settings_options import FromOptions

_DATA = (
    "File or folder of csv, tsv, json, jsonl or parquet, a directory of datasets, OWNER/NAME:CONFIGURATION on the Hub; "
    "with --task a folder or Hub id of GLUE."
)
_TASK = "GLUE task: cola, sst2, mrpc, qqp, stsb, mnli, qnli, rte, wnli, ax; or a directory with a task.json. Default: the model's, or found."
# Parameters of verbs that name what may carry a task, in the order of who decides.
_CARRIERS = ("model", "teacher", "source", "directory", "target", "targets", "models")


@dataclass(frozen=True)
class OnTask:
    """What a verb works on."""

    data: str
    task: Task


@dataclass(frozen=True, kw_only=True)
class TaskOptions(DataSettings):
    """The data and the task of a verb that needs both."""

    data: Annotated[str, Option(_DATA)]
    task: Annotated[str | None, Option(_TASK)] = None

    # Whether the verb learns from the rows.
    trains = False

    def chosen(self, values: Mapping[str, Any]) -> Any:
        """The data and the task, for the other values of the command line.

        Raises:
            InvalidInput: data that are not there, or that no task can be found in.
        """
        return OnTask(self.data, _chosen(self.data, self.task, self, values, trains=self.trains))


@dataclass(frozen=True, kw_only=True)
class TrainingTaskOptions(TaskOptions):
    """The data and the task of a verb that learns from the rows."""

    trains = True


@dataclass(frozen=True, kw_only=True)
class SomeTaskOptions(TaskOptions):
    """The data and the task of a verb that can do without."""

    data: Annotated[str | None, Option(_DATA)] = None  # type: ignore[assignment]

    def chosen(self, values: Mapping[str, Any]) -> Any:
        """The data and the task, None without data."""
        if self.data is not None:
            return super().chosen(values)
        if self.task is not None:
            raise InvalidInput("--task goes with --data", got=f"--task {self.task} alone", repair="add --data FOLDER")
        return None


@dataclass(frozen=True, kw_only=True)
class SomeTrainingTaskOptions(SomeTaskOptions):
    """The data and the task of a verb that learns from rows, if it has some."""

    trains = True


@dataclass(frozen=True)
class OnTasks:
    """What the main job works on: GLUE's tasks, or the one of data of one's own."""

    data: str
    tasks: tuple[Task, ...]

    @property
    def task(self) -> Task:
        """The first one, whose values are defaults of options."""
        return self.tasks[0]


@dataclass(frozen=True, kw_only=True)
class RunTaskOptions(DataSettings):
    """The data and the tasks of the main job."""

    data: Annotated[str, Option(_DATA)]
    task: Annotated[tuple[str, ...], Option("GLUE task; repeat for several. Default: found in the data.")] = ()

    def chosen(self, values: Mapping[str, Any]) -> OnTasks:
        """The data and the tasks, for the other values of the command line.

        Raises:
            InvalidInput: data that are not there, or that no task can be found in.
        """
        names = tuple(dict.fromkeys(self.task)) or (None,)
        return OnTasks(self.data, tuple(_chosen(self.data, name, self, values, trains=True) for name in names))


def _chosen(data: str, name: str | None, options: DataSettings, values: Mapping[str, Any], *, trains: bool) -> Task:
    columns = DataSettings(**{field.name: getattr(options, field.name) for field in fields(DataSettings)})
    if name is not None:
        named_task(name)
    for option in ("model", "teacher"):
        if isinstance(values.get(option), str):
            check_model(values[option], option=f"--{option}")
    check_data(data)
    return _choose(data, name, columns, _carrier(values), trains)


@lru_cache(maxsize=8)
def _choose(data: str, name: str | None, settings: DataSettings, carrier: str | None, trains: bool) -> Task:
    task = choose_task(data, name=name, settings=settings, model=carrier, trains=trains)
    if not task.benchmark:
        say(in_words(data, task))
    return task


def _carrier(values: Mapping[str, Any]) -> str | None:
    """The directory or Hub id that a verb reads, of the first target where there are several."""
    given = next((values[name] for name in _CARRIERS if values.get(name)), None)
    if given is None:
        return None
    word = str(given[0] if isinstance(given, list) else given)
    if Path(word).is_dir():
        return word
    from hf_albert_plus.eval.targets import parse_target

    try:
        return str(parse_target(word).directory)
    except InvalidInput:  # the verb says what is wrong with a target
        return word


_PANEL = "Options for data"
# What verbs declare: they score or learn, and some can do without data.
Scored = Annotated[OnTask, FromOptions(TaskOptions, panel=_PANEL)]
Learned = Annotated[OnTask, FromOptions(TrainingTaskOptions, panel=_PANEL)]
MaybeScored = Annotated[OnTask | None, FromOptions(SomeTaskOptions, panel=_PANEL)]
AllLearned = Annotated[OnTasks, FromOptions(RunTaskOptions, panel=_PANEL)]
MaybeLearned = Annotated[OnTask | None, FromOptions(SomeTrainingTaskOptions, panel=_PANEL)]
