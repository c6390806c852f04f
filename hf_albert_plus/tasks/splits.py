"""The rows of a task's splits, whoever's the task is."""

from typing import TYPE_CHECKING

from ..errors import InvalidInput
from ..records.record import Parent
from .own_data import own_parent, own_split, own_splits
from .readers import glue_parent, glue_split
from .task import Task

if TYPE_CHECKING:
    from datasets import Dataset


def load_split(
    data: str, task: Task, split: str, *, labelled: bool = True, soft_labels: str | None = None
) -> "Dataset":
    """Reads one split, columns and labels checked.

    Args:
        data: a benchmark's folder or Hub id (see `glue_split`), or data of one's own (see `find_task`).
        labelled: whether every row must have a label. Those of test splits are -1.
        soft_labels: the column of a teacher's answers, of data of one's own.

    Returns:
        The rows, with the task's text columns, `label` (-1 where there is none) and, where the files have it, `idx`.

    Raises:
        InvalidInput: no such split or data, a file that cannot be read, or rows that are not the task's.
    """
    if not task.benchmark:
        return own_split(data, task, split, labelled=labelled, soft_labels=soft_labels)
    if soft_labels is not None:
        raise InvalidInput(
            "--soft-labels is a column of data of your own", got=f"--task {task.name}", repair="leave out one of the two"
        )  # fmt: skip
    return glue_split(data, task, split, labelled=labelled)


def data_parent(data: str, task: Task) -> Parent:
    """How a record names the data of a task: the hash of its files, or the Hub id."""
    return glue_parent(data, task) if task.benchmark else own_parent(data, task.validation_file)


def evaluated_splits(data: str, task: Task) -> dict[str, str]:
    """Report row -> split, of those that the data have; a benchmark's must all be there."""
    if task.benchmark:
        return task.rows
    there = own_splits(data, task)
    return {row_name: split for row_name, split in task.rows.items() if split in there}
