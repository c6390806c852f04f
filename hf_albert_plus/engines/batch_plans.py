"""Which rows share a batch: those of similar length under a budget of tokens, or those that stand together in a file."""

from collections.abc import Sequence

from ..errors import InvalidInput

# Tokens a batch, padding included. On two cores, where a small encoder is fastest on SST-2; see `albert-plus eval`.
TOKEN_BUDGET = 512


def token_batches(lengths: Sequence[int], *, budget: int) -> list[list[int]]:
    """Numbers of rows, the longest first, in batches of at most `budget` tokens, padding included.

    A row longer than the budget makes a batch of its own.

    Raises:
        InvalidInput: the budget is not positive.
    """
    if budget < 1:
        raise InvalidInput("a token budget must be at least 1", got=budget, repair=f"use {TOKEN_BUDGET}")
    batches: list[list[int]] = []
    widest = 0
    for row in sorted(range(len(lengths)), key=lambda row: lengths[row], reverse=True):
        if not batches or (len(batches[-1]) + 1) * widest > budget:
            batches.append([])
            widest = max(lengths[row], 1)
        batches[-1].append(row)
    return batches


def file_batches(rows: int, *, size: int) -> list[list[int]]:
    """Numbers of rows in their order, `size` a batch."""
    if size < 1:
        raise InvalidInput("a batch must have at least 1 row", got=size, repair="use 32")
    return [list(range(start, min(start + size, rows))) for start in range(0, rows, size)]
