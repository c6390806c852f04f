"""Ranges of whole rows that a file is cut into, bounded in rows and in bytes, without reading what is in them."""

from collections.abc import Iterator
from itertools import pairwise
from math import ceil
from typing import NamedTuple

import numpy

from .columns import open_parquet
from .settings import ScoreSettings
from .sources import Source

_BLOCK = 1 << 20


_NEWLINE = 10


class RowRange(NamedTuple):
    """Consecutive rows of a file.

    Attributes:
        start: number of its first row in Parquet, its first byte in lines.
        end: the one after its last.
        first: number of its first row, from 0.
        rows: how many it has; in lines of JSON, blank ones included.
    """

    start: int
    end: int
    first: int
    rows: int


def parquet_ranges(source: Source, settings: ScoreSettings) -> Iterator[RowRange]:
    """Row groups, several small ones together and big ones in pieces."""
    with open_parquet(source) as file:
        metadata = file.metadata
        start = end = size = 0
        for group in map(metadata.row_group, range(metadata.num_row_groups)):
            read = sum(
                group.column(number).total_uncompressed_size
                for number in range(group.num_columns)
                if group.column(number).path_in_schema.partition(".")[0] in settings.columns
            )
            rows = group.num_rows
            if end > start and (end - start + rows > settings.part_rows or size + read > settings.part_bytes):
                yield RowRange(start, end, start, end - start)
                start, size = end, 0
            end, size = end + rows, size + read
            pieces = min(rows, max(ceil(rows / settings.part_rows), ceil(read / settings.part_bytes)))
            if pieces > 1:
                edges = [start + rows * number // pieces for number in range(pieces + 1)]
                yield from (RowRange(one, other, one, other - one) for one, other in pairwise(edges))
                start, size = end, 0
        if end > start:
            yield RowRange(start, end, start, end - start)


def line_ranges(source: Source, settings: ScoreSettings) -> Iterator[RowRange]:
    """Whole lines, which a newline ends and nothing else does. The last one may lack it."""
    start = first = row = position = 0
    block = b""
    with open(source.file, "rb") as stream:
        while read := stream.read(_BLOCK):
            block = read
            ends = position + 1 + numpy.flatnonzero(numpy.frombuffer(block, numpy.uint8) == _NEWLINE)
            done = 0
            while done < len(ends):
                by_rows = done + settings.part_rows - (row - first) - 1
                by_bytes = int(numpy.searchsorted(ends, start + settings.part_bytes))
                last = min(by_rows, max(by_bytes, done))
                if last >= len(ends):
                    row += len(ends) - done
                    break
                row += last - done + 1
                end = int(ends[last])
                yield RowRange(start, end, first, row - first)
                start, first, done = end, row, last + 1
            position += len(block)
    if position > start:
        yield RowRange(start, position, first, row - first + (not block.endswith(b"\n")))
