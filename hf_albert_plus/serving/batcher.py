"""Dynamic batching: a batch is made of what waits when a stream is free, under a budget of tokens, fairly between requests."""

import asyncio
import math
import os
import sys
import threading
import time
from bisect import insort
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ..engines.batch_plans import token_batches
from .refusals import Failed, NotReady, Overloaded

Row = TypeVar("Row")
# Share of the last measured pace that a new one replaces.
_FRESH = 0.2
# Of threads that compute.
_NICENESS = 5
# Tokens a second, before any were measured.
_FIRST_PACE = 20_000.0


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
        turn: when its answer would have come, had its request been the only one: the order in which chunks are served.
        due: when it goes even if the batch has room.
        is_suspect: whether it failed in a batch with others, and is to be computed by itself.
    """

    request: _Request[Row]
    places: list[int]
    widest: int
    turn: float
    due: float
    is_suspect: bool = False

    @property
    def tokens(self) -> int:
        return len(self.places) * self.widest

    @property
    def is_wanted(self) -> bool:
        return not self.request.done.done()


@dataclass(eq=False)
class TokenBatcher(Generic[Row]):
    """A queue of rows, which makes batches of those of several requests.

    Chunks are served by their turns. So a short request overtakes what is left of a long one, and nothing waits for ever: a turn is a
    moment, and all that comes later than it has a later one.

    Attributes:
        run: rows -> an answer for each; called in a thread, several at a time.
        budget: tokens a batch, padding included.
        wait_s: how long rows wait for others to share their batch with, where a stream is free.
        streams: batches that are computed at a time.
        bound: tokens that may wait, beyond which requests are refused.
        call_tokens: tokens that take as long as a call does by itself: so much padding costs less than another call, and more does not.
        is_broken: whether no thread computes any more: nothing would be answered.
    """

    run: Callable[[list[Row]], Sequence[Any]]
    budget: int
    wait_s: float
    streams: int
    bound: int
    call_tokens: float = math.inf
    _waiting: list[_Chunk[Row]] = field(default_factory=list)
    _tokens: int = 0
    _tokens_per_s: float | None = None
    _busy: int = 0
    _is_due: bool = False
    _is_closed: bool = False
    is_broken: bool = False

    def __post_init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=self.streams, thread_name_prefix="batch", initializer=_stand_back)

    @property
    def waiting_tokens(self) -> int:
        return self._tokens

    async def submit(self, rows: Sequence[Row], *, lengths: Sequence[int]) -> list[Any]:
        """The answers to some rows, in their order. Whoever stops waiting takes the rows that were not begun out of the queue.

        Args:
            lengths: tokens of each row.

        Raises:
            Overloaded: more waits than may.
            NotReady: it is closed.
        """
        if not rows:
            return []
        if self._is_closed:
            raise NotReady("another version has taken the place of this one; ask again")
        pace = self._tokens_per_s or _FIRST_PACE
        if self._tokens and self._tokens + sum(lengths) > self.bound:
            message = f"{self._tokens} tokens wait already, and at most {self.bound} may"
            raise Overloaded(message, retry_after_s=max(0.1, self._tokens / pace))
        loop = asyncio.get_running_loop()
        request = _Request(rows, [None] * len(rows), len(rows), loop.create_future())
        turn = now = time.monotonic()
        for places in token_batches(lengths, budget=self.budget, call_tokens=self.call_tokens):
            widest = max(lengths[place] for place in places)
            turn += len(places) * widest / pace
            self._put(_Chunk(request, places, widest, turn, now + self.wait_s))
        self._soon(loop)
        return await request.done

    async def close(self) -> None:
        """Stops; what still waits is cancelled."""
        self._is_closed = True
        for chunk in self._waiting:
            chunk.request.done.cancel()
        await asyncio.get_running_loop().run_in_executor(None, self._pool.shutdown)

    def _put(self, chunk: _Chunk[Row]) -> None:
        insort(self._waiting, chunk, key=lambda one: one.turn)
        self._tokens += chunk.tokens

    def _soon(self, loop: asyncio.AbstractEventLoop) -> None:
        """Fills the free streams once what has come in the same moment waits as well."""
        if not self._is_due and self._busy < self.streams:
            self._is_due = True
            loop.call_soon(self._fill, loop)

    def _fill(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begins batches while a stream is free and rows are due."""
        self._is_due = False
        while self._busy < self.streams and not self._is_closed:
            chunks = self._fitting()
            if not chunks:
                return
            count, widest = sum(len(chunk.places) for chunk in chunks), max(chunk.widest for chunk in chunks)
            left_s = min(chunk.due for chunk in chunks) - time.monotonic() if self.wait_s else 0
            if left_s > 0 and (count + 1) * widest <= self.budget:
                loop.call_later(left_s, self._soon, loop)
                return
            taken = set(map(id, chunks))
            self._waiting = [chunk for chunk in self._waiting if id(chunk) not in taken]
            self._tokens -= sum(chunk.tokens for chunk in chunks)
            self._begin(chunks, loop)

    def _fitting(self) -> list[_Chunk[Row]]:
        """The chunk whose turn it is, and others in their order that share its batch well."""
        chosen: list[_Chunk[Row]] = []
        count = widest = 0
        if any(not chunk.is_wanted for chunk in self._waiting):
            self._waiting = [chunk for chunk in self._waiting if chunk.is_wanted]
            self._tokens = sum(chunk.tokens for chunk in self._waiting)
        for chunk in self._waiting:
            if chunk.is_suspect:
                if not chosen:
                    return [chunk]
                continue
            wider, total = max(widest, chunk.widest), count + len(chunk.places)
            padding = total * wider - count * widest - chunk.tokens
            if chosen and (total * wider > self.budget or padding > self.call_tokens):
                continue
            chosen.append(chunk)
            count, widest = total, wider
            if (count + 1) * widest > self.budget:
                break
        return chosen

    def _begin(self, chunks: list[_Chunk[Row]], loop: asyncio.AbstractEventLoop) -> None:
        """Has a thread compute the rows of some chunks in one batch."""
        rows = [chunk.request.rows[place] for chunk in chunks for place in chunk.places]
        tokens, start = len(rows) * max(chunk.widest for chunk in chunks), time.monotonic()
        self._busy += 1

        def end(computed: "asyncio.Future[Sequence[Any]]") -> None:
            self._busy -= 1
            self._soon(loop)
            error = computed.exception()
            answers = [] if error else computed.result()
            if error is None and len(answers) != len(rows):
                error = Failed(why=f"{len(answers)} answers to {len(rows)} rows")
            if error is not None:
                self._fail(chunks, error)
                return
            self._note_pace(tokens / max(1e-6, time.monotonic() - start) * self.streams)
            _give(chunks, answers)

        try:
            loop.run_in_executor(self._pool, self.run, rows).add_done_callback(end)
        except RuntimeError as error:  # no thread can be started
            self._busy, self.is_broken = self._busy - 1, True
            for chunk in chunks:
                self._fail([chunk], error)

    def _fail(self, chunks: list[_Chunk[Row]], error: BaseException) -> None:
        """Whatever it is, it is the answer of these rows and of no others. Where one request's rows may have failed those of others, each
        chunk is computed once more, by itself."""
        for chunk in chunks:
            if len(chunks) > 1:
                chunk.is_suspect = True
                self._put(chunk)
            elif chunk.is_wanted:
                chunk.request.done.set_exception(error)

    def _note_pace(self, tokens_per_s: float) -> None:
        before = self._tokens_per_s
        self._tokens_per_s = tokens_per_s if before is None else before + _FRESH * (tokens_per_s - before)


def _give(chunks: "list[_Chunk[Any]]", answers: Sequence[Any]) -> None:
    """Gives the requests of some chunks their answers."""
    given = iter(answers)
    for chunk in chunks:
        request = chunk.request
        for place in chunk.places:
            request.answers[place] = next(given)
        request.missing -= len(chunk.places)
        if not request.missing and not request.done.done():
            request.done.set_result(request.answers)


def _stand_back() -> None:
    """Lets the thread that takes requests go before this one, where they share a core: it has little to do and is waited for."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
