"""A model as requests see it: texts or token ids in, logits or vectors out, batches made on the way."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy

from ..engines.input_checks import check_arrays
from ..engines.padding import Ids
from ..engines.questions import context_characters
from ..engines.text_answers import ClassifierFacts, Text, TextAnswers
from ..engines.text_classifier import TextClassifier
from ..engines.text_model_kinds import open_text_model
from ..engines.text_tokens import Encoded
from ..errors import InvalidInput
from ..machine import physical_cores
from ..tasks.long_texts import MOST_WINDOWS
from ..tasks.question_windows import MOST_CONTEXT_WINDOWS
from .batcher import TokenBatcher
from .refusals import NotFinite, Unusable
from .settings import ServeSettings

_POLL_S = 0.05
# Batches beyond one a core: a core goes on with one of them while the answers of its last are handed over.
_READY = 1
# Characters that are tokenised in less time than it takes to hand them to a thread.
_AT_ONCE = 1000
_TOO_LONG = 'shorten it, or send "truncate": true to have its end left out'
Result = TypeVar("Result")


class QueuedModel:
    """A model of texts with a queue before it. One event loop calls it."""

    def __init__(self, directory: str | Path, runtime: str, settings: ServeSettings, *, verify: bool = True):
        """Opens and warms up.

        Args:
            verify: compare the model's files with the hashes in its record.

        Raises:
            InvalidInput: no such engine, a model that answers no texts, one with fewer positions than `max_length`, or no finite numbers.
        """
        self.settings = settings
        self.model = open_text_model(
            directory,
            runtime,
            cores=settings.cores or physical_cores(),
            max_length=settings.max_length,
            verify=verify,
        )
        self.engine, self.facts = self.model.engine, self.model.facts
        self.model.warm_up()
        self._asked = 0
        self._tokenising = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tokenise")
        self._batcher: TokenBatcher[Ids] = TokenBatcher(
            self._run,
            budget=settings.token_budget,
            wait_s=settings.wait_ms / 1e3,
            streams=self.model.streams + (_READY if self.engine.runtime.concurrent else 0),
            bound=settings.max_waiting,
            call_tokens=self.model.call_tokens(),
        )

    @property
    def is_broken(self) -> bool:
        return self._batcher.is_broken

    @property
    def waiting_tokens(self) -> int:
        return self._batcher.waiting_tokens

    async def answer(self, texts: Sequence[Text], *, truncate: bool) -> TextAnswers:
        """Tokenises and computes.

        Args:
            texts: a text each, or a pair of them: a question with its context.

        Raises:
            Unusable: a text that is too long and not to be cut, a pair for a model that reads none, or a question without a context.
            Overloaded: more waits than may.
        """
        if isinstance(self.model, TextClassifier) and self.model.facts.rule.has_spans:
            with self._being_asked():
                return await self._answers_to_questions(self.model, texts, truncate=truncate)
        if not self.facts.reads_pairs and any(isinstance(text, tuple) for text in texts):
            raise Unusable("this model reads texts one by one: send no pairs")
        with self._being_asked():
            encoded = await self._encoded_whole(texts, truncate=truncate)
            return await self._answers(encoded)

    async def infer(self, tensors: Mapping[str, numpy.ndarray]) -> TextAnswers:
        """Answers rows of token ids, `[n, S]` int64 each; a mask of ones and token types of 0 where there are none.

        Raises:
            Unusable: ids that the model does not know, too many of them, or padding where there can be none.
            Overloaded: more waits than may.
        """
        rows = self._rows(tensors)
        with self._being_asked():
            answers = await self._answers(Encoded(rows, [len(row["input_ids"]) for row in rows], [False] * len(rows)))
        is_by_token = isinstance(self.facts, ClassifierFacts) and self.facts.rule.has_logits_of_tokens
        return self._placed(answers, tensors) if is_by_token else answers

    def _placed(self, answers: TextAnswers, tensors: Mapping[str, numpy.ndarray]) -> TextAnswers:
        """Logits of tokens where these stand in the tensors of a request, 0 at their padding."""
        width, is_left = tensors["input_ids"].shape[1], self.model.tokens.padding.side == "left"
        placed = []
        for logits_SC in answers.values:
            rest = width - len(logits_SC)
            placed.append(numpy.pad(logits_SC, ((rest, 0) if is_left else (0, rest), (0, 0))))
        return replace(answers, values=placed)

    async def finish(self) -> None:
        """Closes once everything that it was asked is answered, or after the deadline of requests."""
        end = time.monotonic() + self.settings.deadline_s
        # A request that found this model just now has not asked it yet.
        await asyncio.sleep(_POLL_S)
        while self._asked and time.monotonic() < end:
            await asyncio.sleep(_POLL_S)
        await self.close()

    async def close(self) -> None:
        await self._batcher.close()
        self._tokenising.shutdown()

    @contextmanager
    def _being_asked(self) -> Iterator[None]:
        self._asked += 1
        try:
            yield
        finally:
            self._asked -= 1

    async def _answers_to_questions(
        self, model: TextClassifier, texts: Sequence[Text], *, truncate: bool
    ) -> TextAnswers:
        """The best span of each question's context, by all of its windows."""
        most = context_characters(self.facts.max_length)
        for place, text in enumerate(texts):
            if not truncate and isinstance(text, tuple) and len(text[1]) > most:
                raise Unusable(f"the context of text {place} has more than {most} characters, {_TOO_LONG}")
        try:
            asked = await self._beside(texts, model.asked, texts)
        except InvalidInput as error:
            raise Unusable(str(error)) from None
        for place, (windows, is_cut) in enumerate(zip(asked.windows, asked.truncated, strict=True)):
            if is_cut and not truncate:
                raise Unusable(
                    f"the context of text {place} has {windows} windows of {self.facts.max_length} tokens, and {MOST_CONTEXT_WINDOWS} are read at most, "
                    f"{_TOO_LONG}"
                )
        logits = await self._batcher.submit(asked.rows, lengths=asked.lengths)
        return await self._beside(texts, model.answers_of, asked, logits)

    async def _encoded_whole(self, texts: Sequence[Text], *, truncate: bool) -> Encoded:
        """Tokenises texts, nothing of which may be left out unless the request or the model's own setting says so."""
        longest, characters, long = self.facts.max_length, self.model.characters, self.facts.long
        may_cut = truncate or characters is None
        room = f"{MOST_WINDOWS} windows of {longest} tokens" if long.has_windows else f"{longest} tokens"
        for place, text in enumerate(texts):
            if not may_cut and characters is not None and _characters(text) > characters:
                raise Unusable(
                    f"text {place} has more than {characters} characters, the most that is read for {room}: shorten it, or send "
                    '"truncate": true to have it cut'
                )
        encoded = await self._encoded(texts)
        if may_cut or not any(encoded.truncated):
            return encoded
        first = encoded.truncated.index(True)
        takes = room if long.has_windows else longest
        raise Unusable(
            f"text {first} has {encoded.tokens[first]} tokens, and the model takes at most {takes}: shorten it, or send "
            '"truncate": true to have it cut'
        )

    async def _answers(self, encoded: Encoded) -> TextAnswers:
        lengths = [len(row["input_ids"]) for row in encoded.rows]
        values = await self._batcher.submit(encoded.rows, lengths=lengths)
        return self.model.answers_of(encoded, values)

    async def _encoded(self, texts: Sequence[Text]) -> Encoded:
        return await self._beside(texts, self.model.tokenise, texts)

    async def _beside(self, texts: Sequence[Text], work: Callable[..., Result], *of: Any) -> Result:
        """What a function gives, called in a thread where the texts are so long that others would wait for it."""
        if sum(map(_characters, texts)) <= _AT_ONCE:
            return work(*of)
        return await asyncio.get_running_loop().run_in_executor(self._tokenising, work, *of)

    def _rows(self, tensors: Mapping[str, numpy.ndarray]) -> list[Ids]:
        """The rows of `[n, S]` tensors without their padding."""
        given = dict(tensors)
        ids = given.get("input_ids")
        if ids is not None and "attention_mask" not in given:
            given["attention_mask"] = numpy.ones_like(ids)
        if ids is not None and "token_type_ids" in self.facts.inputs and "token_type_ids" not in given:
            given["token_type_ids"] = numpy.zeros_like(ids)
        try:
            check_arrays(given, self.facts.inputs, self.engine.config)
        except InvalidInput as error:
            raise Unusable(str(error)) from None
        mask = given["attention_mask"]
        counts, side = mask.sum(axis=1), self.model.tokens.padding.side
        expected = numpy.arange(mask.shape[1])[None] < counts[:, None]
        if not counts.all() or (mask.astype(bool) != (expected if side == "right" else expected[:, ::-1])).any():
            raise Unusable(
                f"attention_mask must be ones for at least one token of a row, with zeros on its {side} alone"
            )
        kept = [slice(0, count) if side == "right" else slice(mask.shape[1] - count, None) for count in counts]
        return [
            {name: given[name][place, part].tolist() for name in self.facts.inputs} for place, part in enumerate(kept)
        ]

    def _run(self, rows: list[Ids]) -> list[numpy.ndarray]:
        """The array of each row. One that is not finite fails them all, and the batcher asks each request's rows again by themselves.

        Raises:
            NotFinite: a number is NaN or infinite.
        """
        values = self.model.values(rows)
        if not numpy.isfinite(values).all():
            plural = self.model.plural
            raise NotFinite(
                f"the model computed no finite {plural} for this request", why=f"{plural} that are NaN or infinite"
            )
        return self.model.each(rows, values)


def _characters(text: Text) -> int:
    return len(text) if isinstance(text, str) else len(text[0]) + len(text[1])
