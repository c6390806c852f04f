"""Rows of a range of a Parquet file."""

from collections.abc import Iterator
from typing import Any

import pyarrow

from ..errors import InvalidInput, first_line
from .columns import InputFormat, InputRows, open_parquet
from .plan import PlannedPart

# What is read at a time.
_ROWS, _BYTES = 64, 1 << 20


def parquet_rows(part: PlannedPart, wanted: InputFormat) -> Iterator[InputRows]:
    """Every row of a part once, in their order.

    Raises:
        InvalidInput: a row that is no text, or a broken file.
    """
    start, end = part.range.start, part.range.end
    with open_parquet(part.source) as file:
        groups, position, average = _groups(file, start, end)
        size = max(1, min(_ROWS, _BYTES // average))
        try:
            for batch in file.iter_batches(
                batch_size=size, row_groups=groups, columns=wanted.settings.columns, use_threads=False
            ):
                ours = batch.slice(max(0, start - position), max(0, end - max(start, position)))
                if ours.num_rows:
                    yield _rows(ours, max(start, position), part, wanted)
                position += batch.num_rows
                if position >= end:
                    return
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
            raise InvalidInput(
                "--input *.parquet must be readable, its text UTF-8", got=f"{part.source.path} ({first_line(error)})", repair="write it again"
            ) from None  # fmt: skip


def _rows(batch: pyarrow.RecordBatch, first: int, part: PlannedPart, wanted: InputFormat) -> InputRows:
    columns = [batch.column(name).to_pylist() for name in wanted.settings.text_columns]
    texts = [
        wanted.text(values, f"row {number} (from 0) of {part.source.path}")
        for number, values in enumerate(zip(*columns, strict=True), start=first)
    ]
    kept = [batch.column(name).cast(field.type) for name, field in zip(wanted.settings.kept, wanted.kept, strict=True)]
    for column in kept:
        column.validate(full=True)
    numbers = list(range(first, first + batch.num_rows))
    return InputRows(numbers, texts, pyarrow.Table.from_arrays(kept, schema=wanted.kept))


def _groups(file: Any, start: int, end: int) -> tuple[list[int], int, int]:
    """The row groups that hold some rows, the number of their first row, and the bytes of a row in them."""
    groups: list[int] = []
    position = first = rows = size = 0
    for number, group in enumerate(map(file.metadata.row_group, range(file.metadata.num_row_groups))):
        if position < end and position + group.num_rows > start:
            first = first if groups else position
            groups.append(number)
            rows, size = rows + group.num_rows, size + group.total_byte_size
        position += group.num_rows
    return groups, first, size // max(1, rows) + 1
