"""Calls that small requests share: a call to another process costs as much as a small model's answer to ten texts."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Request = TypeVar("Request")
Answer = TypeVar("Answer")


class SharedCalls(Generic[Request, Answer]):
    """A request goes at once while few calls are under way; all that come meanwhile go together in the next one."""

    def __init__(self, call: Callable[[list[Request]], Awaitable[Sequence[Answer | Exception]]], *, at_a_time: int):
        """
        Args:
            call: requests -> for each its answer or what refuses it, in their order.
            at_a_time: calls that are under way at most.
        """
        self.call, self.at_a_time = call, at_a_time
        self._waiting: list[tuple[Request, asyncio.Future[Answer]]] = []
        self._under_way: set[asyncio.Task[None]] = set()

    async def submit(self, request: Request) -> Answer:
        """The answer to a request; raises what its call gives for it."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, answer))
        self._send()
        return await answer

    def _send(self) -> None:
        while self._waiting and len(self._under_way) < self.at_a_time:
            # Nothing is asked for those that no longer wait.
            taken = [(request, answer) for request, answer in self._waiting if not answer.done()]
            self._waiting.clear()
            if taken:
                task = asyncio.create_task(self._run(taken))
                self._under_way.add(task)
                task.add_done_callback(self._end)

    def _end(self, task: "asyncio.Task[None]") -> None:
        self._under_way.discard(task)
        self._send()

    async def _run(self, taken: "list[tuple[Request, asyncio.Future[Answer]]]") -> None:
        try:
            found: Sequence[Answer | Exception] = await self.call([request for request, _ in taken])
        except Exception as error:  # whatever it is, it is the answer of these requests and of no others
            found = [error] * len(taken)
        for (_, answer), one in zip(taken, found, strict=True):
            if answer.done():
                continue
            if isinstance(one, Exception):
                answer.set_exception(one)
            else:
                answer.set_result(one)


__all__ = ["SharedCalls"]
