"""Several labels in one cell of a table: `a|b|c`, or a list as Python prints it."""

import ast
import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

from .most_likely import json_value

# What stands between labels; the first one that a column has is taken.
_SEPARATORS = ("|", ";", ",")
# Two strings without a comma between them, as numpy prints a list: Python would read them as one.
_RUN_TOGETHER = re.compile(r"""['"]\s+['"]""")


def separator_of(names: Collection[str]) -> str | None:
    """What seems to join several labels in the names of classes: names with it are made of fewer parts than there are names."""
    for separator in _SEPARATORS:
        joined = sum(separator in name for name in names)
        if joined > 1 and len({part for name in names for part in _parts(name, separator)}) < len(names):
            return separator
    return None


def lists_in(values: Sequence[Any], known: Collection[str]) -> list[Any]:
    """Every cell of a column as the list that it writes; what writes none stays as it is.

    Args:
        known: the labels of a task, whose names stay whole whatever is in them; none while the labels are being found.
    """
    read = [list_in(value) for value in values]
    strings = [value for value in read if isinstance(value, str)]
    separator = next((one for one in _SEPARATORS if any(one in text for text in strings)), None)
    if separator is None and not known:
        return read
    return [_labels_in(value, separator, known) if isinstance(value, str) else value for value in read]


def list_in(value: Any) -> Any:
    """The list that a string writes in JSON or in Python; what writes none as it is, or as JSON has it."""
    read = json_value(value)
    if isinstance(read, list) or not isinstance(value, str):
        return read
    if value.lstrip().startswith("[") and not _RUN_TOGETHER.search(value):
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):  # it is a name then
            return ast.literal_eval(value.strip())
    return value


def _labels_in(text: str, separator: str | None, known: Collection[str]) -> list[str]:
    whole = text.strip()
    return [whole] if whole and (separator is None or whole in known) else _parts(text, separator or _SEPARATORS[0])


def _parts(text: str, separator: str) -> list[str]:
    return [part.strip() for part in text.split(separator) if part.strip()]
