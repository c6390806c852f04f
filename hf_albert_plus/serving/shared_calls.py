"""Calls that small requests share: a call to another process costs as much as a small model's answer to ten texts."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from .refusals import Failed, RequestError

Request = TypeVar("Request")


Answer = TypeVar("Answer")


class SharedCalls(Generic[Request, Answer]):
    """Calls that requests share. A request goes at once while few calls are under way; all that come meanwhile go together in the next.

    Where a call of several fails, each of them is asked again alone: what is wrong with one is the answer of that one. A call that is
    refused as a whole (too much waits) is refused for all of its requests.
    """

    def __init__(self, call: Callable[[list[Request]], Awaitable[Sequence[Answer | Exception]]], *, at_a_time: int):
        """Shares the calls of a function.

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
        outcomes = await self._answers([request for request, _ in taken])
        if outcomes is None:
            alone = [self._answers([request], last=True) for request, _ in taken]
            outcomes = [one for answers in await asyncio.gather(*alone) for one in answers or ()]
        for (_, answer), one in zip(taken, outcomes, strict=True):
            if answer.done():
                continue
            if isinstance(one, Exception):
                answer.set_exception(one)
            else:
                answer.set_result(one)

    async def _answers(self, requests: list[Request], *, last: bool = False) -> Sequence[Answer | Exception] | None:
        """What a call gives for each of its requests; None where it is to be made again for each alone.

        Args:
            last: whatever it fails with is the answer.
        """
        try:
            answers = await self.call(requests)
            if len(answers) != len(requests):
                raise Failed(why=f"{len(answers)} answers to {len(requests)} requests")
        except Exception as error:  # whatever it is, it is the answer of these requests and of no others
            is_theirs = (
                last or len(requests) == 1 or (isinstance(error, RequestError) and not isinstance(error, Failed))
            )
            return [error] * len(requests) if is_theirs else None
        return answers
