"""Which rows share a batch: those of similar length under a budget of tokens, or those that stand together in a file."""

import math
from collections.abc import Sequence

from ..errors import InvalidInput

# Tokens a batch, padding included. On two cores, where a small encoder is fastest on SST-2; see `albert-plus eval`.
TOKEN_BUDGET = 512


def token_batches(lengths: Sequence[int], *, budget: int, call_tokens: float = math.inf) -> list[list[int]]:
    """Numbers of rows, the longest first, in batches of at most `budget` tokens, padding included.

    A row longer than the budget makes a batch of its own.

    Args:
        call_tokens: tokens that take as long as a call does by itself. A batch ends where its padding would cost more than another call.

    Raises:
        InvalidInput: the budget is not positive.
    """
    if budget < 1:
        raise InvalidInput("a token budget must be at least 1", got=budget, repair=f"use {TOKEN_BUDGET}")
    batches: list[list[int]] = []
    widest = padding = 0
    for row in sorted(range(len(lengths)), key=lambda row: lengths[row], reverse=True):
        padding += widest - lengths[row]
        if not batches or (len(batches[-1]) + 1) * widest > budget or padding > call_tokens:
            batches.append([])
            widest, padding = max(lengths[row], 1), 0
        batches[-1].append(row)
    return batches


def file_batches(rows: int, *, size: int) -> list[list[int]]:
    """Numbers of rows in their order, `size` a batch."""
    if size < 1:
        raise InvalidInput("a batch must have at least 1 row", got=size, repair="use 32")
    return [list(range(start, min(start + size, rows))) for start in range(0, rows, size)]
