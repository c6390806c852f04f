"""The task beside a model's config.json, so that nobody has to name columns again."""

import json
from dataclasses import asdict, replace
from pathlib import Path

from ..errors import InvalidInput
from ..records.files import read_json, write_json
from .glue import TASKS
from .long_texts import LongTexts
from .task import Task

TASK_FILE = "task.json"
_FORMAT = 1


def describe_task(task: Task) -> dict[str, object]:
    """A task as JSON holds it: a benchmark's by its name, a user's own in full, but for where its validation file lies."""
    if task.benchmark:
        long = {} if task.long.is_cut else {"long": asdict(task.long)}
        return {
            "format": _FORMAT,
            "benchmark": task.benchmark,
            "name": task.name,
            "max_length": task.max_length,
            **long,
        }
    left_out = ("validation_file", *(["long"] if task.long.is_cut else []))
    facts = {
        name: value for name, value in asdict(task).items() if value not in (None, {}, "") and name not in left_out
    }
    return {"format": _FORMAT, **json.loads(json.dumps(facts))}


def task_of(content: dict[str, object], *, where: str) -> Task:
    """The task that JSON describes.

    Raises:
        InvalidInput: it describes none.
    """
    from pydantic import TypeAdapter, ValidationError

    repair = "make the model again, or remove the file and name the columns"
    if content.get("format") != _FORMAT:
        raise InvalidInput(
            f"a task must be of format {_FORMAT}", got=f"{content.get('format')!r} in {where}", repair=repair
        )
    name = content.get("name")
    if content.get("benchmark"):
        if name not in TASKS:
            raise InvalidInput("a benchmark's task must be known", got=f"{name!r} in {where}", repair=repair)
        length = int(str(content.get("max_length", Task.max_length)))
        return replace(TASKS[str(name)], max_length=length, long=_long_of(content, where=where, repair=repair))
    try:
        task = TypeAdapter(Task).validate_python({key: value for key, value in content.items() if key != "format"})
    except (ValidationError, TypeError) as error:
        raise InvalidInput(
            "a task must be one that this version wrote", got=f"{error!s:.200} in {where}", repair=repair
        ) from None
    if not task.columns or not task.label_columns or (not task.is_regression and len(task.labels) < 1):
        raise InvalidInput("a task must have columns and labels", got=f"none in {where}", repair=repair)
    return task


def _long_of(content: dict[str, object], *, where: str, repair: str) -> LongTexts:
    """What JSON says of long texts; files of older versions say nothing, and mean that they are cut."""
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(LongTexts).validate_python(content.get("long", {}))
    except ValidationError as error:
        raise InvalidInput(
            "a task must say of long texts what this version knows", got=f"{error!s:.200} in {where}", repair=repair
        ) from None


def write_task(directory: Path, task: Task, *, max_length: int | None = None) -> None:
    """Writes a task into a model directory.

    Args:
        max_length: the longest input that the model was trained on, where it is not the task's.
    """
    carried = task if max_length is None else replace(task, max_length=max_length)
    write_json(directory / TASK_FILE, describe_task(carried))


def read_task(source: str | Path) -> Task | None:
    """The task that a model directory carries, if it does.

    Raises:
        InvalidInput: a file that describes none.
    """
    content = _content(source)
    return None if content is None else task_of(content, where=str(Path(source) / TASK_FILE))


def read_long_task(source: str | Path) -> Task | None:
    """The task that a model directory carries, if long texts are not just cut there.

    Raises:
        InvalidInput: a file that describes none.
    """
    content = _content(source)
    return None if content is None or "long" not in content else read_task(source)


def _content(source: str | Path) -> dict[str, object] | None:
    path = Path(source) / TASK_FILE
    if not path.is_file():
        return None
    content: dict[str, object] = read_json(path, what=TASK_FILE, shape=dict[str, object], repair="make the model again")
    return content
