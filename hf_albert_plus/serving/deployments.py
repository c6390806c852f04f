"""A model as Ray Serve runs it: replicas in processes of their own, and what asks them."""

import asyncio
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
from ray.exceptions import RayActorError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError

from ..engines.text_answers import ModelFacts, Text, TextAnswers
from .loopback import keep_replica_to_loopback
from .queued_model import QueuedModel
from .refusals import DeadlineExceeded, Failed, Overloaded, RequestError
from .repository import content_of
from .settings import ServeSettings
from .shared_calls import SharedCalls

_AGAIN_S = 0.05
# Requests with more texts have a call to themselves: whoever shared it would wait for them.
_SMALL = 16
_CALLS_OF_A_REPLICA = 4


@dataclass(frozen=True)
class TextsQuestion:
    """A request with texts, as it crosses to a replica."""

    texts: list[Text]
    truncate: bool

    @property
    def rows(self) -> int:
        return len(self.texts)

    async def ask(self, model: QueuedModel) -> TextAnswers:
        return await model.answer(self.texts, truncate=self.truncate)


@dataclass(frozen=True)
class TensorsQuestion:
    """A request with token ids, as it crosses to a replica."""

    tensors: dict[str, numpy.ndarray]

    @property
    def rows(self) -> int:
        return max((len(tensor) for tensor in self.tensors.values()), default=0)

    async def ask(self, model: QueuedModel) -> TextAnswers:
        return await model.infer(self.tensors)


Question = TextsQuestion | TensorsQuestion


class ModelReplica:
    """A model in a process of its own."""

    def __init__(self, directory: str, runtime: str, settings: ServeSettings, content: str):
        """Opens the model.

        Args:
            content: what lay in its directory when its files were compared with their hashes; other files are compared again.
        """
        keep_replica_to_loopback()
        verify = content_of(Path(directory), runtime) != content
        self.model = QueuedModel(Path(directory), runtime, settings, verify=verify)

    def check_health(self) -> None:
        """Asked by Ray Serve, which puts another replica in the place of one that raises."""
        if self.model.is_broken:
            raise RuntimeError("no batches are made any more")

    def facts(self) -> ModelFacts:
        return self.model.facts

    async def answer(self, questions: Sequence[Question]) -> list[TextAnswers | RequestError]:
        """The answer to each question, or what it is refused with: the fault of one is no answer to the others."""
        return await asyncio.gather(*(self._one(question) for question in questions))

    async def _one(self, question: Question) -> TextAnswers | RequestError:
        try:
            return await question.ask(self.model)
        except RequestError as error:
            return error
        except Exception:  # any other would be the answer to all that share the call, and may not cross as it is
            return Failed(why=traceback.format_exc())


class RemoteModel:
    """A model behind a handle. Where a replica dies with a request, another one is asked, and the client gets one answer."""

    def __init__(self, handle: Any, facts: ModelFacts, *, replicas: int, deadline_s: float):
        """Asks the replicas behind a handle.

        Args:
            deadline_s: seconds after which nobody waits for an answer any more.
        """
        self.handle, self.facts, self.deadline_s = handle, facts, deadline_s
        self._small: SharedCalls[Question, TextAnswers] = SharedCalls(
            self._ask, at_a_time=_CALLS_OF_A_REPLICA * replicas
        )

    async def answer(self, texts: Sequence[Text], *, truncate: bool) -> TextAnswers:
        return await self._answer(TextsQuestion(list(texts), truncate))

    async def infer(self, tensors: Mapping[str, numpy.ndarray]) -> TextAnswers:
        return await self._answer(TensorsQuestion(dict(tensors)))

    async def _answer(self, question: Question) -> TextAnswers:
        if question.rows <= _SMALL:
            return await self._small.submit(question)
        (answer,) = await self._ask([question])
        if isinstance(answer, RequestError):
            raise answer
        return answer

    async def _ask(self, questions: list[Question]) -> Sequence[TextAnswers | RequestError]:
        end = time.monotonic() + self.deadline_s
        while time.monotonic() < end:
            try:
                answers: Sequence[TextAnswers | RequestError] = await self.handle.answer.remote(questions)
                return answers
            except BackPressureError:
                raise Overloaded("as many requests wait as may", retry_after_s=1) from None
            except (RayActorError, DeploymentUnavailableError) as error:
                if len(questions) > 1:
                    # One of them may be what it died of.
                    raise Failed(why=str(error)) from None
                await asyncio.sleep(_AGAIN_S)
        raise DeadlineExceeded("no replica answered in time", retry_after_s=1)
