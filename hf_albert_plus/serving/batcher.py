"""Dynamic batching: rows of several requests share a batch, under a token budget and for no longer than a deadline."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ..engines.batch_plans import token_batches
from .refusals import Failed, Overloaded

Row = TypeVar("Row")
# Share of the last measured pace that a new one replaces.
_FRESH = 0.2


@dataclass(eq=False)
class _Request(Generic[Row]):
    """Rows that one caller waits for."""

    rows: Sequence[Row]
    answers: list[Any]
    missing: int
    done: "asyncio.Future[list[Any]]"


@dataclass(eq=False)
class _Chunk(Generic[Row]):
    """Rows of one request that go into one batch.

    Attributes:
        widest: tokens of the longest.
        due: when it goes even if the batch has room.
    """

    request: _Request[Row]
    places: list[int]
    widest: int
    due: float

    @property
    def is_wanted(self) -> bool:
        return not self.request.done.done()


@dataclass(eq=False)
class TokenBatcher(Generic[Row]):
    """A queue of rows, which makes batches of those of several requests.

    Attributes:
        run: rows -> an answer for each; called in a thread, several at a time.
        budget: tokens a batch, padding included.
        wait_s: how long rows wait for others to share their batch with.
        streams: batches that are computed at a time.
        bound: tokens that may wait, beyond which requests are refused.
    """

    run: Callable[[list[Row]], Sequence[Any]]
    budget: int
    wait_s: float
    streams: int
    bound: int
    _waiting: deque[_Chunk[Row]] = field(default_factory=deque)
    _tokens: int = 0
    _tokens_per_s: float | None = None

    def __post_init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=self.streams, thread_name_prefix="batch")
        self._arrived = asyncio.Event()
        self._workers: list[asyncio.Task[None]] = []

    @property
    def waiting_tokens(self) -> int:
        return self._tokens

    @property
    def is_broken(self) -> bool:
        """Whether what makes batches has ended by an error of its own: nothing would be answered any more."""
        return any(worker.done() for worker in self._workers)

    async def submit(self, rows: Sequence[Row], *, lengths: Sequence[int]) -> list[Any]:
        """The answers to some rows, in their order. Whoever stops waiting takes the rows that were not begun out of the queue.

        Args:
            lengths: tokens of each row.

        Raises:
            Overloaded: more waits than may.
        """
        if not rows:
            return []
        if self._tokens and self._tokens + sum(lengths) > self.bound:
            pace = self._tokens_per_s or self.bound
            message = f"{self._tokens} tokens wait already, and at most {self.bound} may"
            raise Overloaded(message, retry_after_s=max(0.1, self._tokens / pace))
        if not self._workers:
            self._workers = [asyncio.create_task(self._work()) for _ in range(self.streams)]
        request = _Request(rows, [None] * len(rows), len(rows), asyncio.get_running_loop().create_future())
        due = time.monotonic() + self.wait_s
        for places in token_batches(lengths, budget=self.budget):
            chunk = _Chunk(request, places, max(lengths[place] for place in places), due)
            self._waiting.append(chunk)
            self._tokens += len(chunk.places) * chunk.widest
        self._arrived.set()
        return await request.done

    async def close(self) -> None:
        """Stops; what still waits is cancelled."""
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        for chunk in self._waiting:
            chunk.request.done.cancel()
        self._pool.shutdown(wait=True)

    async def _work(self) -> None:
        while True:
            chunks = await self._next_batch()
            try:
                await self._answer(chunks)
            except Exception as error:  # whatever it is, it is the answer of these rows and of no others
                if len(chunks) == 1:
                    _fail(chunks[0], error)
                    continue
                # One request's rows have failed those of others: each chunk once more, by itself.
                for chunk in chunks:
                    if chunk.is_wanted:
                        await self._answer_alone(chunk)

    async def _answer(self, chunks: list[_Chunk[Row]]) -> None:
        """Computes the rows of some chunks in one batch, and gives their requests the answers."""
        members = [(chunk.request, place) for chunk in chunks for place in chunk.places]
        tokens = len(members) * max(chunk.widest for chunk in chunks)
        start = time.monotonic()
        rows = [request.rows[place] for request, place in members]
        answers = await asyncio.get_running_loop().run_in_executor(self._pool, self.run, rows)
        if len(answers) != len(rows):
            raise Failed(why=f"{len(answers)} answers to {len(rows)} rows")
        self._note_pace(tokens / max(1e-6, time.monotonic() - start) * self.streams)
        for (request, place), answer in zip(members, answers, strict=True):
            request.answers[place] = answer
            request.missing -= 1
            if not request.missing and not request.done.done():
                request.done.set_result(request.answers)

    async def _answer_alone(self, chunk: _Chunk[Row]) -> None:
        try:
            await self._answer([chunk])
        except Exception as error:  # the answer of these rows
            _fail(chunk, error)

    async def _next_batch(self) -> list[_Chunk[Row]]:
        """The oldest rows with those that fit to them; where there is room left, not before they are due."""
        while True:
            while self._waiting and not self._waiting[0].is_wanted:
                self._forget(self._waiting.popleft())
            if self._waiting:
                chosen = self._fitting()
                count = sum(len(chunk.places) for chunk in chosen)
                is_full = (count + 1) * max(chunk.widest for chunk in chosen) > self.budget
                left_s = self._waiting[0].due - time.monotonic()
                if is_full or left_s <= 0:
                    for chunk in chosen:
                        self._waiting.remove(chunk)
                        self._forget(chunk)
                    return chosen
            else:
                left_s = None
            self._arrived.clear()
            try:
                await asyncio.wait_for(self._arrived.wait(), left_s)
            except asyncio.TimeoutError:
                continue

    def _fitting(self) -> list[_Chunk[Row]]:
        """The oldest chunk, and others in their order as long as the batch keeps to the budget."""
        chosen: list[_Chunk[Row]] = []
        count = widest = 0
        for chunk in self._waiting:
            if not chunk.is_wanted:
                continue
            wider = max(widest, chunk.widest)
            if chosen and (count + len(chunk.places)) * wider > self.budget:
                continue
            chosen.append(chunk)
            count, widest = count + len(chunk.places), wider
            if (count + 1) * widest > self.budget:
                break
        return chosen

    def _forget(self, chunk: _Chunk[Row]) -> None:
        self._tokens -= len(chunk.places) * chunk.widest

    def _note_pace(self, tokens_per_s: float) -> None:
        before = self._tokens_per_s
        self._tokens_per_s = tokens_per_s if before is None else before + _FRESH * (tokens_per_s - before)


def _fail(chunk: _Chunk[Any], error: Exception) -> None:
    if chunk.is_wanted:
        chunk.request.done.set_exception(error)
