"""The texts of a task's rows."""

from typing import TYPE_CHECKING

from .task import Task

if TYPE_CHECKING:
    from datasets import Dataset


def texts_of(rows: "Dataset", task: Task) -> list[tuple[str, ...]]:
    """The text, or the two, of every row; words with blanks between them."""
    columns = [rows[column] for column in task.columns]
    if task.has_tags:
        return [(" ".join(words),) for words in columns[0]]
    return list(zip(*columns, strict=True))
