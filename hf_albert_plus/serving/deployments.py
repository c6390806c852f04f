"""A model as Ray Serve runs it: replicas in processes of their own, and what asks them."""

import asyncio
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy
from ray.exceptions import RayActorError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError

from .answers import Answers, Facts, Text
from .classifier import Classifier
from .errors import DeadlineExceeded, Failed, Overloaded, RequestError
from .loopback import keep_replica_to_loopback
from .settings import ServeSettings
from .sharing import SharedCalls

_AGAIN_S = 0.05


# Requests with more texts have a call to themselves: whoever shared it would wait for them.
_SMALL = 16
_CALLS_OF_A_REPLICA = 4
# A method of a classifier, and what it is called with.
Asked = tuple[str, dict[str, Any]]


class ModelReplica:
    """A model in a process of its own."""

    def __init__(self, directory: str, runtime: str, settings: Mapping[str, Any]):
        keep_replica_to_loopback()
        self.classifier = Classifier(Path(directory), runtime, ServeSettings(**settings))

    def check_health(self) -> None:
        """Asked by Ray Serve, which puts another replica in the place of one that raises."""
        if self.classifier.is_broken:
            raise RuntimeError("no batches are made any more")

    def facts(self) -> Facts:
        return self.classifier.facts

    async def answer(self, requests: Sequence[Asked]) -> list[Answers | RequestError]:
        """The answer to each request, or what it is refused with: the fault of one is no answer to the others."""
        return await asyncio.gather(*(self._one(method, given) for method, given in requests))

    async def _one(self, method: str, given: Mapping[str, Any]) -> Answers | RequestError:
        try:
            answers: Answers = await getattr(self.classifier, method)(**given)
            return answers
        except RequestError as error:
            return error
        except Exception:  # any other would be the answer to all that share the call, and may not cross as it is
            return Failed(why=traceback.format_exc())


class RemoteModel:
    """A model behind a handle. Where a replica dies with a request, another one is asked, and the client gets one answer.

    `onnx-int8` quantises activations as it runs, by the range that they have in the whole batch: its answer to a text depends a little on
    the texts that shared the batch, and so on where and when it was computed.
    """

    def __init__(self, handle: Any, facts: Facts, *, replicas: int, deadline_s: float):
        """
        Args:
            deadline_s: after which nobody waits for an answer any more.
        """
        self.handle, self.facts, self.deadline_s = handle, facts, deadline_s
        self._small: SharedCalls[Asked, Answers] = SharedCalls(self._ask, at_a_time=_CALLS_OF_A_REPLICA * replicas)

    async def classify(self, texts: Sequence[Text], *, truncate: bool) -> Answers:
        return await self._answer(("classify", {"texts": list(texts), "truncate": truncate}), rows=len(texts))

    async def infer(self, tensors: Mapping[str, numpy.ndarray]) -> Answers:
        rows = max((len(tensor) for tensor in tensors.values()), default=0)
        return await self._answer(("infer", {"tensors": dict(tensors)}), rows=rows)

    async def _answer(self, asked: Asked, *, rows: int) -> Answers:
        if rows <= _SMALL:
            return await self._small.submit(asked)
        (found,) = await self._ask([asked])
        if isinstance(found, RequestError):
            raise found
        return found

    async def _ask(self, requests: list[Asked]) -> Sequence[Answers | RequestError]:
        end = time.monotonic() + self.deadline_s
        while time.monotonic() < end:
            try:
                found: Sequence[Answers | RequestError] = await self.handle.answer.remote(requests)
                return found
            except BackPressureError:
                raise Overloaded("as many requests wait as may", retry_after_s=1) from None
            except (RayActorError, DeploymentUnavailableError) as error:
                if len(requests) > 1:
                    # One of them may be what it died of.
                    raise Failed(why=str(error)) from None
                await asyncio.sleep(_AGAIN_S)
        raise DeadlineExceeded("no replica answered in time", retry_after_s=1)


__all__ = ["ModelReplica", "RemoteModel"]
