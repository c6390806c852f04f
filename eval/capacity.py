"""How many machines a load needs, from what one was measured to do.

A request of n texts takes a + b n seconds of one core: a for itself, b for each text. Two measurements with different n give both, any
more are left to check the model with. Requests come by themselves (a Poisson process) and take about the same time each, so they wait
as in an M/D/1 queue: the tail of the wait falls off as exp(-eta t), where the load rho and the service time D give eta by
rho (exp(eta D) - 1) = eta D (Tijms, A First Course in Stochastic Models, 2003, section 9.6).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from scipy.optimize import brentq

from hf_albert_plus.errors import InvalidInput


@dataclass(frozen=True)
class Measured:
    """A server under requests of one size.

    Attributes:
        texts: of a request.
        cores: that client, server and model shared.
        requests_per_s: at its full pace.
        alone_ms: median of a request that has the server to itself.
        half_p99_ms: 99th percentile at half the pace.
    """

    texts: int
    cores: int
    requests_per_s: float
    alone_ms: float
    half_p99_ms: float

    @property
    def core_s(self) -> float:
        """Of a request."""
        return self.cores / self.requests_per_s


@dataclass(frozen=True)
class Capacity:
    """
    Attributes:
        request_s: of one core, that a request takes for itself.
        text_s: that each of its texts takes.
        alone_ms: a request's median with an idle server; linear in its texts between what was measured.
    """

    request_s: float
    text_s: float
    alone_ms: Mapping[int, float]

    def core_s(self, texts: int) -> float:
        return self.request_s + self.text_s * texts

    def requests_per_s(self, *, texts: int, cores: int) -> float:
        """At full pace."""
        return cores / self.core_s(texts)

    def p99_ms(self, *, texts: int, cores: int, load: float) -> float:
        """From arrival to answer, at a share of the full pace."""
        sizes = sorted(self.alone_ms)
        alone = float(numpy.interp(texts, sizes, [self.alone_ms[size] for size in sizes]))
        return alone + 1e3 * wait_quantile(0.99, load=load, service_s=1 / self.requests_per_s(texts=texts, cores=cores))

    def machines(self, *, rate: float, texts: int, cores: int, load: float) -> int:
        """That answer so many requests a second at a share of their full pace."""
        return math.ceil(rate / (load * self.requests_per_s(texts=texts, cores=cores)))


def read_measured(document: Mapping[str, Any], *, name: str) -> Measured:
    """A document of `albert-plus bench-serve`.

    Raises:
        InvalidInput: another one.
    """
    if document.get("kind") != "served":
        raise InvalidInput(
            "capacity is planned from measurements of a server",
            got=f"{name}, a document of kind {document.get('kind')!r}",
            repair="make one: albert-plus bench-serve DIR:onnx-int8 --data … --task … --json served.json",
        )
    texts = document["texts_a_request"]
    return Measured(
        texts=texts,
        cores=document["environment"]["cores"],
        requests_per_s=document["throughput"]["served"]["items_per_s"] / texts,
        alone_ms=document["one_at_a_time"]["p50_ms"],
        half_p99_ms=document["half_pace"]["p99_ms"],
    )


def fit(points: Sequence[Measured]) -> Capacity:
    """The cost of requests and texts, by the smallest and the largest size measured.

    Raises:
        InvalidInput: one size alone, or a larger request that took less.
    """
    points = sorted(points, key=lambda point: point.texts)
    first, last = points[0], points[-1]
    if first.texts == last.texts:
        raise InvalidInput(
            "capacity needs requests of two sizes at least",
            got=f"{first.texts} texts alone",
            repair="measure another: albert-plus bench-serve … --texts 64",
        )
    text_s = (last.core_s - first.core_s) / (last.texts - first.texts)
    request_s = first.core_s - text_s * first.texts
    if text_s <= 0 or request_s < 0:
        raise InvalidInput(
            "a larger request must take more time, and less for each text",
            got=", ".join(f"{point.texts} texts: {1e3 * point.core_s:.2f} ms" for point in points),
            repair="measure again on a quiet machine",
        )
    return Capacity(request_s, text_s, {point.texts: point.alone_ms for point in points})


def wait_quantile(share: float, *, load: float, service_s: float) -> float:
    """Seconds that so large a share of requests waits at most before its turn, in an M/D/1 queue.

    Raises:
        InvalidInput: a load that is not below 1.
    """
    if not 0 < load < 1:
        raise InvalidInput("a load must lie between 0 and 1", got=load, repair="use 0.5")
    # Of the wait in service times, decaying as constant * exp(-rate * t).
    rate = brentq(lambda eta: load * math.expm1(eta) - eta, 1e-9, 50.0)
    constant = (1 - load) / (load * math.exp(rate) - 1)
    return service_s * max(0.0, math.log(constant / (1 - share)) / rate)


__all__ = ["Capacity", "Measured", "fit", "read_measured", "wait_quantile"]
