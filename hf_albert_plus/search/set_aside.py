"""Training rows that no candidate learns from: thresholds of exits are found on them, and the validation rows judge."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InvalidInput
from ..records.files import late_errors
from ..records.record import Record
from ..records.stage import run_stage
from ..tasks.division import divide_rows
from ..tasks.own_data import as_written
from ..tasks.splits import data_parent, load_split
from ..tasks.task import Task
from ..tasks.task_file import write_task

if TYPE_CHECKING:
    from datasets import Dataset

_SHARE, _MOST = 0.1, 2000


@dataclass(frozen=True)
class DividedRows:
    """The training rows of a task in two parts, as data of that task.

    Attributes:
        data: the folder: its training split is learned from, its validation split is set aside.
        task: the task as its rows are read there.
        count: rows that are learned from.
    """

    data: Path
    task: Task
    count: int


def set_aside(data: str, *, task: Task, output: Path, seed: int) -> tuple[DividedRows, Record]:
    """Writes the training rows again, a tenth of them (at most 2,000), stratified, with near-copies on one side, as validation split."""

    def work(directory: Path) -> dict[str, Any]:
        rows = load_split(data, task, "train")
        learned, aside = divide_rows(rows, task, share=min(_SHARE, _MOST / max(1, len(rows))), seed=seed)
        if not aside:
            raise InvalidInput(
                "a search must have training rows to set aside, at least three of a class",
                got=f"{len(rows)} rows in {data}",
                repair="add rows of each class",
            )
        folder = directory / task.name if task.benchmark else directory
        folder.mkdir(exist_ok=True)
        split = task.judging_split
        for name, places in (("train", learned), (split, aside)):
            _write(rows.select(places), task, folder / f"{name}-00000-of-00001.parquet")
        if not task.benchmark:
            write_task(directory, replace(task, held_out=None, validation_file=None))
        return {"learned_from": len(learned), "set_aside": len(aside)}

    settings = {**task.settings, "share": _SHARE, "most": _MOST, "seed": seed, "near_copies": True}
    record = run_stage("set-aside", output, settings=settings, parents={"data": data_parent(data, task)}, work=work)
    return DividedRows(output, replace(task, validation_file=None), record.result["learned_from"]), record


def _write(rows: "Dataset", task: Task, path: Path) -> None:
    written = rows if task.benchmark else as_written(rows, task)
    with path.open("wb") as stream, late_errors(stream) as late:
        written.to_parquet(late)
