"""The server's parts as Ray Serve runs them: replicas of each model, and the front that takes requests."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy
from ray import serve
from ray.exceptions import RayActorError, RayTaskError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError, RayServeException

from .answers import Answers, Facts, Text
from .app import build_app
from .catalogue import Catalogue
from .classifier import Classifier
from .errors import Overloaded, RequestError
from .guard import Gate
from .loopback import keep_replica_to_loopback
from .settings import ServeSettings

_AGAIN_S = 0.05
_LOG = logging.getLogger("hf_albert_plus.serving")
# A front's own, in its process.
_CATALOGUE, _GATE = Catalogue(), Gate()


class ModelReplica:
    """A model in a process of its own."""

    def __init__(self, directory: str, runtime: str, settings: Mapping[str, Any]):
        keep_replica_to_loopback()
        self.classifier = Classifier(Path(directory), runtime, ServeSettings(**settings))

    def facts(self) -> Facts:
        return self.classifier.facts

    async def classify(self, texts: Sequence[Text], truncate: bool) -> Answers:
        return await self.classifier.classify(texts, truncate=truncate)

    async def infer(self, tensors: Mapping[str, numpy.ndarray]) -> Answers:
        return await self.classifier.infer(tensors)


class RemoteModel:
    """A model behind a handle. Where a replica dies with a request, another one is asked: whoever computes it, the answer is the same,
    and the client gets it once."""

    def __init__(self, handle: Any, facts: Facts):
        self.handle, self.facts = handle, facts

    async def classify(self, texts: Sequence[Text], *, truncate: bool) -> Answers:
        return await self._ask("classify", list(texts), truncate)

    async def infer(self, tensors: Mapping[str, numpy.ndarray]) -> Answers:
        return await self._ask("infer", dict(tensors))

    async def _ask(self, method: str, *given: Any) -> Answers:
        while True:
            try:
                answers: Answers = await getattr(self.handle, method).remote(*given)
                return answers
            except BackPressureError:
                raise Overloaded("as many requests wait as may", retry_after_s=1) from None
            except RayTaskError as error:
                if isinstance(error.cause, RequestError):
                    raise error.cause from None
                raise
            except (RayActorError, DeploymentUnavailableError):
                # The front stops asking when the request's time is up.
                await asyncio.sleep(_AGAIN_S)


class Front:
    """Takes requests and hands them to the models that its configuration names."""

    def __init__(self, token: str | None):
        keep_replica_to_loopback()
        _GATE.token = token
        self._generation = -1

    async def reconfigure(self, config: Mapping[str, Any]) -> None:
        """What Ray Serve calls at the start, and again after a crash: by then some models may be gone."""
        await self.update(config)

    async def update(self, config: Mapping[str, Any]) -> None:
        """Takes up a new set of models, all at once; requests that were begun end with the old one.

        Args:
            config: `generation`, a number; `models`, name -> version -> Ray's application; and `draining`.
        """
        models: dict[str, dict[int, RemoteModel]] = {}
        for name, versions in config["models"].items():
            for version, application in versions.items():
                try:
                    handle = serve.get_app_handle(application)
                    model = RemoteModel(handle, await handle.facts.remote())
                except RayServeException as error:
                    _LOG.warning("%s %s is gone: %s", name, version, error)
                    continue
                models.setdefault(name, {})[int(version)] = model
        _CATALOGUE.models, _GATE.is_draining, self._generation = models, config["draining"], config["generation"]

    def generation(self) -> int:
        """Of the models that it knows."""
        return self._generation

    def in_flight(self) -> int:
        return _GATE.in_flight


def front_app(settings: ServeSettings) -> Any:
    """The front's application, over what this process was configured with."""
    return build_app(_CATALOGUE, settings, _GATE)


__all__ = ["Front", "ModelReplica", "RemoteModel", "front_app"]
