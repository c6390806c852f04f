"""Requests to `/classify` over kept connections: as fast as answers come, or by a schedule that does not wait for them."""

import http.client
import json
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from hf_albert_plus.errors import InvalidInput

_PATIENCE_S = 60


@dataclass(frozen=True)
class Reply:
    """The answer to a request.

    Attributes:
        ms: from when it was due to its last byte.
        status: of HTTP.
        body: as it came.
    """

    ms: float
    status: int
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Clients:
    """Threads with a connection each."""

    def __init__(self, host: str, port: int, *, count: int):
        self._host, self._port, self._own = host, port, threading.local()
        self._connections: list[http.client.HTTPConnection] = []
        self._pool = ThreadPoolExecutor(max_workers=count, thread_name_prefix="client")

    def closed_loop(self, bodies: Sequence[bytes]) -> list[Reply]:
        """Every client sends its next request when it has its answer. Replies in the order of the requests."""
        return list(self._pool.map(lambda body: self._send(body, due=time.perf_counter()), bodies))

    def open_loop(self, bodies: Sequence[bytes], arrivals: Sequence[float]) -> list[Reply]:
        """Every request is sent when it is due, where a client is free; its time counts from then in any case.

        Args:
            arrivals: seconds after the start, ascending.
        """
        start = time.perf_counter()
        waiting = []
        for body, arrival in zip(bodies, arrivals, strict=True):
            due = start + arrival
            time.sleep(max(0.0, due - time.perf_counter()))
            waiting.append(self._pool.submit(self._send, body, due=due))
        return [one.result() for one in waiting]

    def close(self) -> None:
        self._pool.shutdown()
        for connection in self._connections:
            connection.close()

    def _send(self, body: bytes, *, due: float) -> Reply:
        if not hasattr(self._own, "connection"):
            self._own.connection = http.client.HTTPConnection(self._host, self._port, timeout=_PATIENCE_S)
            self._connections.append(self._own.connection)
        connection = self._own.connection
        try:
            connection.request("POST", "/classify", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            content = answer.read()
        except OSError as error:
            raise InvalidInput(
                "the server must answer", got=str(error), repair="see its log, or start it again"
            ) from None
        return Reply((time.perf_counter() - due) * 1e3, answer.status, content)


__all__ = ["Clients", "Reply"]
