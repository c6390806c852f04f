"""Limits on the time of an await, without a task of their own as `asyncio.wait_for` would make for every request."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import TypeVar

Value = TypeVar("Value")


async def within(awaited: Awaitable[Value], seconds: float, *, error: Callable[[], Exception]) -> Value:
    """What is awaited, if it comes in time. As `asyncio.timeout` of Python 3.11 does it.

    Raises:
        Exception: what `error` makes, after so many seconds.
    """
    task, is_over = asyncio.current_task(), False
    assert task is not None

    def give_up() -> None:
        nonlocal is_over
        is_over = True
        task.cancel()

    timer = asyncio.get_running_loop().call_later(seconds, give_up)
    try:
        return await awaited
    except asyncio.CancelledError:
        if not is_over:
            raise
        if sys.version_info >= (3, 11):
            task.uncancel()
        raise error() from None
    finally:
        timer.cancel()
