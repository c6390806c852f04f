"""A server that clients ask: its answers, the time of a block of requests, and the latency of one at a time and at half of its pace."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.latency.timing import elapsed_ms, percentiles
from hf_albert_plus.eval.load.clients import Clients, Reply
from hf_albert_plus.eval.measured_documents import Percentiles, to_json

_LATE_CLIENTS = 32


@dataclass(frozen=True)
class AskedServer:
    """A server on this machine, and its requests."""

    port: int
    path: str
    bodies: list[bytes]

    def ask(self, count: int, bodies: Sequence[bytes]) -> list[Reply]:
        """The answers to some requests, from so many clients at a time."""
        asking = self._clients(count)
        replies = checked(asking.closed_loop(bodies))
        asking.close()
        return replies

    def time_block(self, count: int) -> float:
        """Milliseconds for all requests, of clients whose connections are open."""
        asking = self._clients(count)
        asking.closed_loop(self.bodies[: 2 * count])
        took = elapsed_ms(lambda: checked(asking.closed_loop(self.bodies)))
        asking.close()
        return took

    def latency(self, requests_per_s: float, *, seconds: float) -> dict[str, Any]:
        """Percentiles of requests, as JSON: one at a time, and at half of the server's pace."""
        alone, rate = self._one_at_a_time(seconds=seconds), requests_per_s / 2
        loaded = self._at_rate(rate, seconds=seconds)
        return {"one_at_a_time": to_json(alone), "half_pace": {"requests_per_s": round(rate, 2), **to_json(loaded)}}

    def _one_at_a_time(self, *, seconds: float) -> Percentiles:
        """Percentiles of requests of which each is sent when the one before is answered."""
        asking = self._clients(1)
        pace_ms = numpy.median([reply.ms for reply in checked(asking.closed_loop(self.bodies[:20]))])
        replies = checked(asking.closed_loop(self._again(max(20, round(seconds * 1e3 / pace_ms)))))
        asking.close()
        return _percentiles(replies)

    def _at_rate(self, rate: float, *, seconds: float) -> Percentiles:
        """Percentiles from arrival to answer, of a Poisson process."""
        asking = self._clients(_LATE_CLIENTS)
        asking.closed_loop(self.bodies[: 2 * _LATE_CLIENTS])
        count = max(20, round(rate * seconds))
        arrivals = numpy.random.default_rng(0).exponential(1 / rate, size=count).cumsum()
        replies = checked(asking.open_loop(self._again(count), arrivals.tolist()))
        asking.close()
        return _percentiles(replies)

    def _again(self, count: int) -> list[bytes]:
        """So many requests, from the first on again and again."""
        return [self.bodies[number % len(self.bodies)] for number in range(count)]

    def _clients(self, count: int) -> Clients:
        return Clients("127.0.0.1", self.port, count=count, path=self.path)


def checked(replies: list[Reply]) -> list[Reply]:
    """The replies, each of which must be an answer.

    Raises:
        InvalidInput: the server refused one.
    """
    for reply in replies:
        if reply.status != 200:
            raise InvalidInput(
                "the server must answer every request",
                got=f"{reply.status}: {reply.json()['error']}",
                repair="use fewer --clients or --texts",
            )
    return replies


def _percentiles(replies: list[Reply]) -> Percentiles:
    return percentiles(numpy.asarray([reply.ms for reply in replies]))
