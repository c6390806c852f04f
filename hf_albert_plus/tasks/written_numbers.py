"""Numbers as people write them: 3.5, or 3,5 with a decimal comma; amounts that no number can be read from for certain; and none."""

import math
import re
from collections.abc import Sequence
from typing import Any

# What programs write for a value that is missing, in lower case.
MISSING = ("nan", "na", "n/a", "#n/a", "none", "null", "nil", "-", "?")
_WITH_COMMA = re.compile(r"\s*[+-]?\d+,\d+\s*")
# Three digits behind a comma may be thousands.
_PERHAPS_THOUSANDS = re.compile(r"\s*[+-]?[1-9]\d{0,2},\d{3}\s*")
_AMOUNT = re.compile(r"\s*[$€£¥]?\s*[+-]?\s*(\d+([.,]\d+)?|\d{1,3}([,.'\s]\d{3})+([.,]\d+)?)\s*[$€£¥%]?\s*")


def as_number(value: Any) -> float | None:
    """The finite number that a value is, or that a string writes with a point."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def as_numbers(values: Sequence[Any]) -> list[float | None]:
    """The number of every value of a column, None where it is none.

    A comma is read as a decimal point where the column has no points and some value cannot be thousands: `1,234` alone may be either.
    """
    written = [value for value in values if isinstance(value, str)]
    has_commas = any(_WITH_COMMA.fullmatch(text) and not _PERHAPS_THOUSANDS.fullmatch(text) for text in written)
    if not has_commas or any("." in text for text in written):
        return [as_number(value) for value in values]
    return [as_number(value.replace(",", ".") if isinstance(value, str) else value) for value in values]


def is_amount(value: Any) -> bool:
    """Whether a string is an amount, as `€10.50`, `12 %` or `1,234.50`."""
    return isinstance(value, str) and _AMOUNT.fullmatch(value) is not None
