"""The texts of a task's rows, and the column that they stand in."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..errors import InvalidInput, first_line
from .column_roles import is_list, is_text
from .task import Task

if TYPE_CHECKING:
    import pyarrow
    from datasets import Dataset

# What the texts of files without labels are called, whatever the task's column is.
_TEXT = "text"


def texts_of(rows: "Dataset", task: Task) -> list[tuple[str, ...]]:
    """The text, or the two, of every row; words with blanks between them."""
    columns = [rows[column] for column in task.columns]
    if task.has_tags:
        return [(" ".join(words),) for words in columns[0]]
    return list(zip(*columns, strict=True))


def check_utf8(texts: Iterable[str], name: str, *, where: str) -> None:
    """Refuses a column of texts with characters that UTF-8 lacks: halves of surrogate pairs.

    Raises:
        InvalidInput: such a character.
    """
    try:
        "\n".join(texts).encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"column {name!r} must hold characters that UTF-8 has", got=f"{first_line(error)} in {where}", repair="write those rows again"
        ) from None  # fmt: skip


def with_task_column(table: "pyarrow.Table", task: Task) -> "pyarrow.Table":
    """A table whose column `text` has the name of the task's only one, where that is missing or holds something else: files of scores
    have columns of their own, such as the number of `tokens`."""
    (name, *others) = task.columns
    names = table.column_names
    if (
        others
        or names.count(_TEXT) != 1
        or (name in names and (is_text(table.column(name)) or is_list(table.column(name))))
    ):
        return table
    kept = [each for each in names if each != name]
    return table.select(kept).rename_columns([name if each == _TEXT else each for each in kept])
