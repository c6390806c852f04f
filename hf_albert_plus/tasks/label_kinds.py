"""What labels are, where nobody says it: names, several of them, or numbers; and values that are missing."""

import math
import re
from typing import TYPE_CHECKING, Any

from ..errors import InvalidInput, shown
from .column_roles import is_list
from .joined_labels import separator_of
from .most_likely import class_answers
from .task import Kind
from .written_numbers import MISSING, as_number, as_numbers, is_amount

if TYPE_CHECKING:
    import pyarrow

# More values than that are amounts, if all of them could be.
_MANY = 20
# Columns that are called as several labels are.
_SEVERAL = ("labels", "tags", "topics", "categories", "classes", "intents", "emotions")
# Numbers with a decimal comma, and two labels: `2,20`. A zero behind the comma is no label's first digit.
_PERHAPS_TWO = re.compile(r"\s*\d+\s*,\s*(0|[1-9]\d*)\s*")


def find_kind(table: "pyarrow.Table", columns: tuple[str, ...], *, where: str) -> Kind:
    """What the labels of training rows are.

    Args:
        columns: the label's column, or one for each label.

    Raises:
        InvalidInput: missing values, or values that may be of more than one kind.
    """
    if len(columns) > 1:
        return "labels"
    (name,) = columns
    values = table.column(name).to_pylist()
    if class_answers(values, where=where) is not None:
        return "classes"
    if is_list(table.column(name)):
        return "labels"
    values = present(table, name, where=where)
    if all(isinstance(value, str) and value.lstrip().startswith("[") for value in values):
        return "labels"
    numbers = as_numbers(values)
    if all(number is not None for number in numbers):
        _check_commas(values, name, where=where)
        return "number" if any(number and not number.is_integer() for number in numbers) else "classes"
    _check_missing_numbers(values, numbers, name, where=where)
    if len(set(values)) > _MANY and all(map(is_amount, values)):
        first = next(value for value in values if as_number(value) is None)
        raise InvalidInput(
            f"column {name!r} must hold plain numbers, or names",
            got=f"{shown(first)} in row {values.index(first) + 1} of {where}",
            repair="write it as 1234.5, or add --kind classes if such values are names",
        )
    return "classes"


def present(table: "pyarrow.Table", name: str, *, where: str) -> list[Any]:
    """The values of a label column, all of which must be there.

    Raises:
        InvalidInput: one that is not.
    """
    values = table.column(name).to_pylist()
    missing = [place for place, value in enumerate(values) if is_missing(value)]
    if missing:
        names = {value for value in values if isinstance(value, str)}
        joined = "; or add --kind labels, if a cell holds several labels or none" if separator_of(names) else ""
        raise InvalidInput(
            f"column {name!r} must have a label in every row",
            got=f"{len(missing)} without one of {len(values)} in {where}, first in row {missing[0] + 1}",
            repair=f"fill in or drop those rows{joined}",
        )
    return values


def is_missing(value: Any) -> bool:
    """Whether a value is null, no number, or blank."""
    return (
        value is None
        or (isinstance(value, float) and math.isnan(value))
        or (isinstance(value, str) and not value.strip())
    )


def _check_commas(values: list[Any], name: str, *, where: str) -> None:
    """Refuses numbers of which some have a comma, in a column that is called as several labels are: `2,20` may be two of these.

    Raises:
        InvalidInput: such numbers.
    """
    with_comma = [value for value in values if isinstance(value, str) and "," in value]
    if name.lower() in _SEVERAL and 0 < len(with_comma) < len(values) and all(map(_PERHAPS_TWO.fullmatch, with_comma)):
        raise InvalidInput(
            f"cells of {name!r} must be several labels, or numbers with a decimal comma",
            got=f"{shown(with_comma[0])} in row {values.index(with_comma[0]) + 1} of {where}, which may be either",
            repair="add --kind labels, or --kind number",
        )


def _check_missing_numbers(values: list[Any], numbers: list[float | None], name: str, *, where: str) -> None:
    """Refuses what programs write for a missing number among numbers, some of them not whole: it is no class.

    Raises:
        InvalidInput: such a value.
    """
    missing = [place for place, number in enumerate(numbers) if number is None]
    if any(str(values[place]).strip().lower() not in MISSING for place in missing):
        return
    if any(number is not None and not number.is_integer() for number in numbers):
        raise InvalidInput(
            f"column {name!r} must have a number in every row",
            got=f"{len(missing)} without one of {len(values)} in {where}, first {shown(values[missing[0]])} in row {missing[0] + 1}",
            repair="fill in or drop those rows, or add --kind classes if such values are names",
        )
