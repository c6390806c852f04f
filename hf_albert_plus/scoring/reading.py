"""Reading a part in portions that are bounded in rows and in characters, whatever it holds."""

from collections.abc import Iterator

from .line_rows import json_rows, text_rows
from .parquet_rows import parquet_rows
from .plan import Part
from .rows import Rows, Wanted, joined

_READERS = {"parquet": parquet_rows, "lines of JSON": json_rows, "lines of text": text_rows}
# What is tokenised, sorted by length and scored at a time.
_ROWS, _SIZE = 4096, 8 << 20


def portions(part: Part, wanted: Wanted) -> Iterator[Rows]:
    """Every row of a part once, in their order.

    Raises:
        InvalidInput: a row that is no text, with its file and number; or a file that is not the one that was planned.
    """
    part.source.check_unchanged()
    pending: list[Rows] = []
    count = size = 0
    for rows in _READERS[part.source.kind](part, wanted):
        pending.append(rows)
        count, size = count + len(rows.numbers), size + rows.size
        if count >= _ROWS or size >= _SIZE:
            yield joined(pending)
            pending, count, size = [], 0, 0
    if pending:
        yield joined(pending)
    part.source.check_unchanged()


__all__ = ["portions"]
