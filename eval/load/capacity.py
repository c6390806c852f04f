"""A plan of how many servers a load needs, from what one was measured to do.

A server is a process that takes requests with its replicas, on as many cores as were measured; more of them share nothing but the
balancer in front, so the load divides. A request of n texts takes c(n) seconds of a core, linear between the sizes that were measured. A
server is given half its pace, where the open loop measured how long the slowest wait.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.measured_documents import Positive, PositiveCount
from hf_albert_plus.eval.settings import PlanSettings
from hf_albert_plus.records.files import check_shape, read_json_text

KIND = "served"
LOAD = 0.5


@dataclass(frozen=True)
class Measured:
    """A server under requests of one size.

    Attributes:
        texts: texts of a request.
        cores: cores that client, server and model shared.
        requests_per_s: pace with nothing else to do.
        alone_ms: median of a request that has the server to itself.
        half_p99_ms: 99th percentile, from arrival to answer, at half the pace.
    """

    texts: int
    cores: int
    requests_per_s: float
    alone_ms: float
    half_p99_ms: float


class Capacity:
    """Capacity of servers of one kind, between the sizes of request that were measured."""

    def __init__(self, points: Sequence[Measured]):
        """Orders the measurements by their size.

        Raises:
            InvalidInput: nothing measured, or servers of several sizes.
        """
        self.points = sorted(points, key=lambda point: point.texts)
        cores = sorted({point.cores for point in self.points})
        if len(cores) != 1:
            raise InvalidInput(
                "capacity is planned from servers of one size",
                got=f"{' and '.join(map(str, cores)) or 'no'} cores",
                repair="measure them on one machine: albert-plus bench serve … --json served.json",
            )
        (self.cores,) = cores

    def core_s(self, texts: int) -> float:
        """Seconds of a core that a request takes."""
        return self._between(texts, [self.cores / point.requests_per_s for point in self.points])

    def requests_per_s(self, texts: int) -> float:
        """Requests a second of a server at its full pace."""
        return self.cores / self.core_s(texts)

    def alone_ms(self, texts: int) -> float:
        return self._between(texts, [point.alone_ms for point in self.points])

    def half_p99_ms(self, texts: int) -> float:
        return self._between(texts, [point.half_p99_ms for point in self.points])

    def servers(self, *, rate: float, texts: int) -> int:
        """How many servers answer so many requests a second at half their pace."""
        PlanSettings(rate=rate, texts=texts)
        return math.ceil(rate / (LOAD * self.requests_per_s(texts)))

    def checks(self) -> list[tuple[Measured, float]]:
        """Every size between others, and the requests a second that the others say of it."""
        return [
            (point, Capacity([*self.points[:place], *self.points[place + 1 :]]).requests_per_s(point.texts))
            for place, point in enumerate(self.points)
            if 0 < place < len(self.points) - 1
        ]

    def _between(self, texts: int, values: list[float]) -> float:
        sizes = [point.texts for point in self.points]
        if not sizes[0] <= texts <= sizes[-1]:
            raise InvalidInput(
                "a plan is for requests of a size that lies between those measured",
                got=f"{texts} texts, measured {', '.join(map(str, sizes))}",
                repair=f"measure it: albert-plus bench serve … --texts {texts}",
            )
        return float(numpy.interp(texts, sizes, values))


@dataclass(frozen=True)
class _Machine:
    cores: PositiveCount


@dataclass(frozen=True)
class _Pace:
    items_per_s: Positive


@dataclass(frozen=True)
class _Throughput:
    served: _Pace


@dataclass(frozen=True)
class _Alone:
    p50_ms: Positive


@dataclass(frozen=True)
class _HalfPace:
    p99_ms: Positive


@dataclass(frozen=True)
class _ServedDocument:
    """What a plan reads of a document of `albert-plus bench serve --json`."""

    texts_a_request: PositiveCount
    environment: _Machine
    throughput: _Throughput
    one_at_a_time: _Alone
    half_pace: _HalfPace


def read_measured(path: Path) -> Measured:
    """A document of `albert-plus bench serve`.

    Raises:
        InvalidInput: another one.
    """
    what = "a measurement"
    repair = "make one: albert-plus bench serve DIR:onnx-int8 --data … --task … --json served.json"
    text, content = read_json_text(path, what=what, repair=repair)
    if isinstance(content, dict) and content.get("kind") != KIND:
        raise InvalidInput(
            "capacity is planned from measurements of a server",
            got=f"{path}, a document of kind {content.get('kind')!r}",
            repair=repair,
        )
    document: _ServedDocument = check_shape(text, _ServedDocument, what=what, source=str(path), repair=repair)
    texts = document.texts_a_request
    return Measured(
        texts=texts,
        cores=document.environment.cores,
        requests_per_s=document.throughput.served.items_per_s / texts,
        alone_ms=document.one_at_a_time.p50_ms,
        half_p99_ms=document.half_pace.p99_ms,
    )
