"""Padding-free batches: sequences that share a row of fixed width, without seeing each other."""

from typing import Any

import numpy
from torch.utils.data import Dataset


def pack(lengths: Any, *, width: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Rows of at most `width` tokens, each sequence where it leaves least room, the longest first (best fit decreasing: at most
    11/9 of the fewest rows there can be, and one more).

    Returns:
        the sequences' numbers, row after row, `[N]`; and where each row begins among them, with the end of the last,
        `[rows + 1]`.

    Raises:
        ValueError: a sequence that is longer than a row.
    """
    sizes = numpy.asarray(lengths, dtype=numpy.int32)
    if sizes.size == 0:
        return numpy.zeros(0, dtype=numpy.int64), numpy.zeros(1, dtype=numpy.int64)
    if sizes.max() > width:
        raise ValueError(f"no sequence may be longer than a row of {width} tokens, got one of {sizes.max()}")
    order = numpy.argsort(-sizes, kind="stable")
    # Most sequences fill a row so far that not even the shortest fits beside them.
    alone = int(numpy.searchsorted(-sizes[order], sizes.min() - width, side="left"))
    row_of = numpy.arange(sizes.size)
    count, smallest = alone, int(sizes.min())
    # Rows by the room that is left in them, where there is some that a sequence fits into.
    by_room: list[list[int]] = [[] for _ in range(width + 1)]
    for place in range(alone, sizes.size):
        size = int(sizes[order[place]])
        room = next((room for room in range(size, width + 1) if by_room[room]), None)
        if room is None:
            room, row = width, count
            count += 1
        else:
            row = by_room[room].pop()
        row_of[place] = row
        if room - size >= smallest:
            by_room[room - size].append(row)
    ends = numpy.cumsum(numpy.bincount(row_of, minlength=count))
    return order[numpy.argsort(row_of, kind="stable")], numpy.concatenate([[0], ends])


class PackedRows(Dataset[list[dict[str, Any]]]):
    """Item i is the list of the examples that share row i."""

    def __init__(self, examples: Any, *, width: int):
        self.examples = examples
        self.numbers, self.starts = pack(examples.with_format("numpy")["length"][:], width=width)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, index: int) -> list[dict[str, Any]]:
        return [self.examples[int(number)] for number in self.numbers[self.starts[index] : self.starts[index + 1]]]


__all__ = ["PackedRows", "pack"]
