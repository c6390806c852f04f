"""Windows over a sequence that is longer than a model takes: where each begins and ends, and in which of them a place stands most central."""

from collections.abc import Sequence

import numpy


def windows(length: int, *, size: int, overlap: int) -> list[range]:
    """The places of each window, in their order; together they hold every place.

    All are `size` long where the sequence is: the last one begins as much earlier as it would be shorter, and shares more with the one before
    it.

    Args:
        length: of the sequence.
        size: of a window.
        overlap: places that two neighbours share at least.

    Raises:
        ValueError: a size below 1, or windows that would not go on.
    """
    if size < 1 or not 0 <= overlap < size:
        raise ValueError(f"windows of {size} cannot share {overlap}")
    if length <= size:
        return [range(length)]
    starts = [*range(0, length - size, size - overlap), length - size]
    return [range(start, start + size) for start in starts]


def most_central(spans: Sequence[range]) -> numpy.ndarray:
    """For each place of a sequence the number of the window in which it has most places beside it, on the side where it has fewer; of equal
    ones the first.

    Args:
        spans: windows that hold every place from 0 on, as `windows` gives them.
    """
    places = numpy.arange(max(span.stop for span in spans))
    beside = [numpy.minimum(places - span.start, span.stop - 1 - places) for span in spans]
    numbers: numpy.ndarray = numpy.argmax(beside, axis=0)
    return numbers
