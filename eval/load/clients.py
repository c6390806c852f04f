"""Clients that send requests to a server: as fast as answers come, or by a schedule that does not wait for them.

They share the cores of the server that is measured, so they cost it as little as Python can: connections that stay open, on one event loop.
"""

import asyncio
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hf_albert_plus.errors import InvalidInput, need

httptools = need("httptools", extra="serve")
_PATIENCE_S = 60


@dataclass(frozen=True)
class Reply:
    """The answer to a request.

    Attributes:
        ms: milliseconds from when it was due to its last byte.
        status: HTTP's status.
        body: the bytes as they came.
    """

    ms: float
    status: int
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class _Connection(asyncio.Protocol):
    """A connection that has one request under way at most."""

    def __init__(self, head: bytes, lost: Callable[[str], None]):
        self._head, self._lost = head, lost
        self._transport: Any = None
        self._then: Callable[[Reply], None] | None = None
        self._unsent = b""
        self._parts: list[bytes] = []

    @property
    def is_closed(self) -> bool:
        return self._transport is not None and self._transport.is_closing()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.write(self._unsent)

    def send(self, body: bytes, *, due: float, then: Callable[[Reply], None]) -> None:
        """Sends a request, once there is a connection; `then` gets its answer."""
        self._due, self._then, self._parts = due, then, []
        self._parser = httptools.HttpResponseParser(self)
        request = b"%s%d\r\n\r\n%s" % (self._head, len(body), body)
        if self._transport is None:
            self._unsent = request
        else:
            self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, part: bytes) -> None:
        self._parts.append(part)

    def on_message_complete(self) -> None:
        then, self._then = self._then, None
        ms = (time.perf_counter() - self._due) * 1e3
        if then is not None:
            then(Reply(ms, self._parser.get_status_code(), b"".join(self._parts)))

    def connection_lost(self, error: Exception | None) -> None:
        if self._then is not None:
            self._lost(str(error or "it closed the connection"))

    def close(self) -> None:
        self._transport.close()


class Clients:
    """Clients with a connection each."""

    def __init__(self, host: str, port: int, *, count: int, path: str = "/classify"):
        """Connects.

        Args:
            count: connections, and so requests at a time.
            path: that requests are posted to.

        Raises:
            InvalidInput: nobody answers.
        """
        self._loop, self._place = asyncio.new_event_loop(), f"http://{host}:{port}{path}"
        self._address = host, port
        self._head = (
            f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: ".encode()
        )
        self._connecting: set[asyncio.Task[Any]] = set()

        async def connect() -> list[_Connection]:
            made = [self._loop.create_connection(self._connection, host, port) for _ in range(count)]
            return [connection for _, connection in await asyncio.gather(*made)]

        try:
            self._connections = self._loop.run_until_complete(connect())
        except OSError as error:
            self._loop.close()
            raise _silent(f"{self._place}: {error}") from None

    def closed_loop(self, bodies: Sequence[bytes]) -> list[Reply]:
        """Every client sends its next request when it has its answer. Replies in the order of the requests.

        Raises:
            InvalidInput: a request is not answered.
        """
        waiting = iter(enumerate(bodies))

        def start(replied: Callable[[int, Reply], None]) -> None:
            def go_on(connection: _Connection) -> None:
                number, body = next(waiting, (None, b""))
                if number is not None:
                    connection.send(body, due=time.perf_counter(), then=lambda reply: over(connection, number, reply))

            def over(connection: _Connection, number: int, reply: Reply) -> None:
                replied(number, reply)
                go_on(connection)

            for connection in list(self._connections):
                go_on(self._open(connection))

        return self._replies(len(bodies), start)

    def open_loop(self, bodies: Sequence[bytes], arrivals: Sequence[float]) -> list[Reply]:
        """Every request is sent when it is due, where a client is free; its time counts from then in any case.

        Args:
            arrivals: seconds after the start, ascending.

        Raises:
            InvalidInput: a request is not answered.
        """

        def start(replied: Callable[[int, Reply], None]) -> None:
            free, late = list(self._connections), deque[tuple[int, float]]()
            begin = time.perf_counter()

            def send(number: int, due: float) -> None:
                if not free:
                    late.append((number, due))
                    return
                connection = self._open(free.pop())
                connection.send(bodies[number], due=due, then=lambda reply: over(connection, number, reply))

            def over(connection: _Connection, number: int, reply: Reply) -> None:
                replied(number, reply)
                free.append(connection)
                if late:
                    send(*late.popleft())

            def keep_time() -> None:
                # An event loop's own timers are late by up to a millisecond.
                for number, arrival in enumerate(arrivals):
                    time.sleep(max(0.0, begin + arrival - time.perf_counter()))
                    self._loop.call_soon_threadsafe(send, number, begin + arrival)

            threading.Thread(target=keep_time, daemon=True).start()

        return self._replies(len(bodies), start)

    def close(self) -> None:
        async def end() -> None:
            for connection in self._connections:
                connection.close()

        self._loop.run_until_complete(end())
        self._loop.close()

    def _connection(self) -> _Connection:
        return _Connection(self._head, self._fail)

    def _open(self, connection: _Connection) -> _Connection:
        """A connection, or another one for it where the server has closed it, as servers do after some seconds without a request."""
        if not connection.is_closed:
            return connection
        again = self._connection()
        self._connections[self._connections.index(connection)] = again
        task = self._loop.create_task(self._loop.create_connection(lambda: again, *self._address))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)
        return again

    def _replies(self, count: int, start: Callable[[Callable[[int, Reply], None]], None]) -> list[Reply]:
        """What comes of requests that `start` sends, in their order."""
        replies: list[Any] = [None] * count
        left, self._over = count, self._loop.create_future()
        self._last = self._loop.time()

        def replied(number: int, reply: Reply) -> None:
            nonlocal left
            replies[number], self._last, left = reply, self._loop.time(), left - 1
            if not left and not self._over.done():
                self._over.set_result(None)

        def watch() -> None:
            if self._over.done():
                return
            if self._loop.time() - self._last > _PATIENCE_S:
                self._fail(f"no answer within {_PATIENCE_S} s")
            self._loop.call_later(1, watch)

        async def run() -> None:
            # One look at the sockets says which of them were closed meanwhile.
            await asyncio.sleep(0)
            start(replied)
            watch()
            if count:
                await self._over

        self._loop.run_until_complete(run())
        return replies

    def _fail(self, why: str) -> None:
        if not self._over.done():
            self._over.set_exception(_silent(f"{self._place}: {why}"))


def _silent(why: str) -> InvalidInput:
    return InvalidInput("the server must answer", got=why, repair="see its log, or start it again")
