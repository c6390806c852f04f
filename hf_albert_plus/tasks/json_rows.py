"""Rows in files of JSON: an object a line, an array of objects, or SQuAD's articles."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InvalidInput, first_line, shown
from .squad_json import read_squad

if TYPE_CHECKING:
    import pyarrow

JSON_SUFFIX = ".json"
_REPAIR = 'write [{"text": …, "label": …}, …], or such an object a line'


def read_json(text: str, path: Path) -> "pyarrow.Table":
    """A file of JSON: rows as pandas and `datasets` write them, or SQuAD's questions.

    Raises:
        InvalidInput: no JSON, or another form.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        if _begins_with_object(text):
            return read_json_lines(text, path)
        raise InvalidInput(f"{path.name} must be JSON", got=first_line(error), repair=_REPAIR) from None
    rows = _rows_in(content)
    if rows is None:
        return read_squad(content, path)
    return _table(((f"row {number}", row) for number, row in enumerate(rows, start=1)), path)


def read_json_lines(text: str, path: Path) -> "pyarrow.Table":
    """A file with an object a line.

    Raises:
        InvalidInput: a line that is none, or a column with values of several types.
    """
    return _table(_lines(text, path), path)


def _rows_in(content: Any) -> list[Any] | None:
    """Rows in an array; in an object of columns, each with the same keys, as pandas writes them; or a single row that has no lists."""
    if isinstance(content, list):
        return content
    values = list(content.values()) if isinstance(content, dict) else []
    if values and all(isinstance(value, dict) and value.keys() == values[0].keys() for value in values):
        return [{name: column[key] for name, column in content.items()} for key in values[0]]
    return [content] if values and not any(isinstance(value, list | dict) for value in values) else None


def _begins_with_object(text: str) -> bool:
    """Whether the first line that is not blank is an object by itself."""
    line = text.lstrip().partition("\n")[0]
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _lines(text: str, path: Path) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            yield f"line {number}", json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InvalidInput(
                f"every line of {path.name} must be JSON",
                got=f"{first_line(error)} in line {number}",
                repair="write an object a line, as json.dumps does",
            ) from None


def _table(rows: Iterable[tuple[str, Any]], path: Path) -> "pyarrow.Table":
    """A table of objects.

    Args:
        rows: where each of them stands, and what it is.
    """
    import pyarrow

    names: dict[str, None] = {}
    objects: list[dict[str, Any]] = []
    for where, row in rows:
        if not isinstance(row, dict):
            what = "line" if where.startswith("line") else "row"
            raise InvalidInput(
                f"every {what} of {path.name} must be an object", got=f"{shown(row)} in {where}", repair='write {"text": …, "label": …}'
            )  # fmt: skip
        names.update(dict.fromkeys(row))
        objects.append(row)
    columns = {}
    for name in names:
        try:
            name.encode()
            columns[name] = pyarrow.array([row.get(name) for row in objects])
        except (pyarrow.ArrowException, TypeError, OverflowError, UnicodeEncodeError) as error:
            raise InvalidInput(
                f"column {name!r} must have values of one type in every line",
                got=f"{first_line(error)} in {path}",
                repair="write numbers as numbers or all values as strings, or leave that column out",
            ) from None
    return pyarrow.table(columns)
