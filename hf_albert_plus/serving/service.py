"""What all routes of a server share: the models, the limits, the gate, and the counters that Prometheus reads."""

import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from fastapi import Response
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from ..engines.text_answers import Text, TextAnswers
from .catalogue import Catalogue, ChosenModel
from .gate import Gate
from .refusals import DeadlineExceeded, NotFinite, TooLarge
from .settings import COUNTS, ServeSettings
from .time_limits import within

_PREFIX = "hf_albert_plus"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
# Name -> version -> why it does not serve.
Refused = Mapping[str, Mapping[int, str]]


class _RefusedVersions(Collector):
    """A sample for each version that does not serve, with the reason as a label."""

    def __init__(self, refused: Callable[[], Refused]):
        self.refused = refused

    def collect(self) -> Iterator[GaugeMetricFamily]:
        samples = GaugeMetricFamily(
            f"{_PREFIX}_refused_versions", "Versions that do not serve, and why.", labels=["model", "version", "reason"]
        )
        for name, versions in self.refused().items():
            for version, why in versions.items():
                samples.add_metric([name, str(version), why], 1)
        yield samples


class Measures:
    """Counters of one server. Models and versions are the served ones: what a request calls itself makes no label."""

    def __init__(self, *, in_flight: Callable[[], int], refused: Callable[[], Refused]) -> None:
        """Registers the metrics.

        Args:
            in_flight: requests that are being answered at the moment.
            refused: versions that do not serve at the moment.
        """
        self.registry = CollectorRegistry()
        self.requests = Counter(
            f"{_PREFIX}_requests", "Requests by what they were answered.", ["route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            f"{_PREFIX}_request_seconds", "From the first byte in to the last one out.", ["route"],
            buckets=_SECONDS, registry=self.registry,
        )  # fmt: skip
        of_model = ["model", "version"]
        self.texts = Counter(f"{_PREFIX}_texts", "Texts that were answered.", of_model, registry=self.registry)
        self.tokens = Counter(f"{_PREFIX}_tokens", "Their tokens.", of_model, registry=self.registry)
        self.truncated = Counter(f"{_PREFIX}_truncated_texts", "Texts that were cut.", of_model, registry=self.registry)
        self.not_finite = Counter(
            f"{_PREFIX}_not_finite", "Requests whose answers were no numbers.", of_model, registry=self.registry
        )
        self._refused = _RefusedVersions(refused)
        self.registry.register(self._refused)
        self._in_flight = in_flight
        self._gauge = Gauge(
            f"{_PREFIX}_requests_in_flight", "Requests being answered.", registry=self.registry,
            multiprocess_mode="livesum",
        )  # fmt: skip
        # Processes that count together do so in files, and cannot ask each other.
        self._counts_together = COUNTS in os.environ
        if not self._counts_together:
            self._gauge.set_function(in_flight)

    def over(self, route: str, status: int, seconds: float) -> None:
        """A request was answered, on the route as the application writes it."""
        self.requests.labels(route, status).inc()
        self.seconds.labels(route).observe(seconds)
        if self._counts_together:
            self._gauge.set(self._in_flight())

    def answered(self, answers: TextAnswers, *, model: str, version: int) -> None:
        self.texts.labels(model, version).inc(len(answers.tokens))
        self.tokens.labels(model, version).inc(sum(answers.tokens))
        self.truncated.labels(model, version).inc(sum(answers.truncated))

    def text(self) -> bytes:
        """What Prometheus reads, of all processes that count together."""
        if not self._counts_together:
            return generate_latest(self.registry)
        from prometheus_client.multiprocess import MultiProcessCollector

        together = CollectorRegistry()
        MultiProcessCollector(together)
        together.register(self._refused)
        return generate_latest(together)


NAME = "hf-albert-plus"


@dataclass(frozen=True)
class Service:
    """A server as its routes see it.

    Attributes:
        catalogue: models, looked up anew by every request.
        gate: who may come in; it says whether requests are still taken.
    """

    catalogue: Catalogue
    settings: ServeSettings
    gate: Gate
    measures: Measures

    async def answer(self, texts: Sequence[Text], chosen: ChosenModel, *, truncate: bool | None) -> TextAnswers:
        """What a model says of the texts of a request, in time.

        Args:
            truncate: whether the request asks to cut them; None where it does not say.

        Raises:
            TooLarge: more texts than a request may have.
        """
        most = self.settings.max_items
        if len(texts) > most:
            raise TooLarge(f"inputs has {len(texts)} texts; a request may have {most}")
        return await self.in_time(chosen.model.answer(texts, truncate=self.truncates(truncate)), chosen)

    async def in_time(self, answers: Awaitable[TextAnswers], chosen: ChosenModel) -> TextAnswers:
        """Waits for the answers of a model, and counts them.

        Raises:
            DeadlineExceeded: they did not come in time.
            NotFinite: the model computed something that is no number.
        """
        seconds = self.settings.deadline_s
        try:
            said = await within(
                answers, seconds, error=lambda: DeadlineExceeded(f"no answer within {seconds:g} s", retry_after_s=1)
            )
        except NotFinite:
            self.measures.not_finite.labels(chosen.name, chosen.version).inc()
            raise
        self.measures.answered(said, model=chosen.name, version=chosen.version)
        return said

    def truncates(self, asked: bool | None) -> bool:
        """Whether the texts of a request are cut: the server's own setting where the request does not say."""
        return self.settings.truncate if asked is None else asked


def predicted(predictions: list[dict[str, Any]], chosen: ChosenModel) -> Response:
    """The predictions of a model, with its name and version."""
    content = {"model": chosen.name, "version": str(chosen.version), "predictions": predictions}
    return Response(orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY), media_type="application/json")
