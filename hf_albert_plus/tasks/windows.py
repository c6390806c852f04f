"""Windows over a sequence that is longer than a model takes: where each begins and ends, and in which of them a place stands most central."""

from collections.abc import Sequence

# Of a row: the number of its text, the first of its tokens that answers for the text, and the one after the last. The rows of a text stand
# together, in their order.
Answering = Sequence[int]


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


def most_central(spans: Sequence[range]) -> list[int]:
    """For each place of a sequence the number of the window in which it has most places beside it, on the side where it has fewer; of equal
    ones the first.

    Args:
        spans: windows that hold every place from 0 on, as `windows` gives them.
    """
    numbers, number = [], 0
    for place in range(spans[-1].stop):
        # Over the windows it grows to the best one and falls after it, and the next place's is no earlier one.
        while number + 1 < len(spans) and _beside(place, spans[number + 1]) > _beside(place, spans[number]):
            number += 1
        numbers.append(number)
    return numbers


def _beside(place: int, span: range) -> int:
    """Places on the side where there are fewer; below 0 outside of the window."""
    return min(place - span.start, span.stop - 1 - place)
