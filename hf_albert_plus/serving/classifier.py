"""A model as requests see it: texts or token ids in, logits of its labels out, batches made on the way."""

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
from ..engines.text_answers import Text, TextAnswers
from ..engines.text_classifier import TextClassifier
from ..engines.text_tokens import Encoded
from ..errors import InvalidInput
from ..machine import physical_cores
from ..tasks.question_windows import MOST_WINDOWS
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


class QueuedClassifier:
    """A classifier with a queue before it. One event loop calls it."""

    def __init__(self, directory: str | Path, runtime: str, settings: ServeSettings, *, verify: bool = True):
        """Opens and warms up.

        Args:
            verify: compare the model's files with the hashes in its record.

        Raises:
            InvalidInput: no such engine, no classifier, one with fewer positions than `max_length`, or no finite logits.
        """
        self.settings = settings
        self.model = TextClassifier(
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

    async def classify(self, texts: Sequence[Text], *, truncate: bool) -> TextAnswers:
        """Tokenises and classifies, or tags, or answers questions.

        Args:
            texts: a text each, or a pair of them: a question with its context.

        Raises:
            Unusable: a text that is too long and not to be cut, a pair for a tagger, or a question without a context.
            Overloaded: more waits than may.
        """
        if self.facts.rule.has_spans:
            with self._being_asked():
                return await self._answers_to_questions(texts, truncate=truncate)
        if self.facts.rule.is_by_token and any(isinstance(text, tuple) for text in texts):
            raise Unusable("a tagger reads texts one by one: send no pairs")
        with self._being_asked():
            encoded = await self._encoded_whole(texts, truncate=truncate)
            return await self._answers(encoded.rows, encoded.truncated)

    async def infer(self, tensors: Mapping[str, numpy.ndarray]) -> TextAnswers:
        """Classifies rows of token ids, `[n, S]` int64 each; a mask of ones and token types of 0 where there are none.

        Raises:
            Unusable: ids that the model does not know, too many of them, or padding where there can be none.
            Overloaded: more waits than may.
        """
        rows = self._rows(tensors)
        with self._being_asked():
            answers = await self._answers(rows, [False] * len(rows))
        return self._placed(answers, tensors) if self.facts.rule.has_logits_of_tokens else answers

    def _placed(self, answers: TextAnswers, tensors: Mapping[str, numpy.ndarray]) -> TextAnswers:
        """Logits of tokens where these stand in the tensors of a request, 0 at their padding."""
        width, is_left = tensors["input_ids"].shape[1], self.model.tokens.padding.side == "left"
        placed = []
        for logits_SC in answers.logits:
            rest = width - len(logits_SC)
            placed.append(numpy.pad(logits_SC, ((rest, 0) if is_left else (0, rest), (0, 0))))
        return replace(answers, logits=placed)

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

    async def _answers_to_questions(self, texts: Sequence[Text], *, truncate: bool) -> TextAnswers:
        """The best span of each question's context, by all of its windows."""
        most = self.model.characters
        for place, text in enumerate(texts):
            if not truncate and isinstance(text, tuple) and len(text[1]) > most:
                raise Unusable(f"the context of text {place} has more than {most} characters, {_TOO_LONG}")
        try:
            asked = await self._beside(texts, self.model.asked, texts)
        except InvalidInput as error:
            raise Unusable(str(error)) from None
        for place, (windows, is_cut) in enumerate(zip(asked.windows, asked.truncated, strict=True)):
            if is_cut and not truncate:
                raise Unusable(
                    f"the context of text {place} has {windows} windows of {self.facts.max_length} tokens, and {MOST_WINDOWS} are read at most, "
                    f"{_TOO_LONG}"
                )
        logits = await self._batcher.submit(asked.rows, lengths=asked.lengths)
        return await self._beside(texts, asked.answers, logits, self.facts.rule)

    async def _encoded_whole(self, texts: Sequence[Text], *, truncate: bool) -> Encoded:
        longest, characters = self.facts.max_length, self.model.characters
        for place, text in enumerate(texts):
            if not truncate and _characters(text) > characters:
                raise Unusable(
                    f"text {place} has more than {characters} characters, the most that is read for {longest} tokens: shorten it, or send "
                    '"truncate": true to have it cut'
                )
        encoded = await self._encoded(texts)
        too_long = [place for place, length in enumerate(encoded.tokens) if length > longest]
        if too_long and not truncate:
            first = too_long[0]
            raise Unusable(
                f"text {first} has {encoded.tokens[first]} tokens, and the model takes at most {longest}: shorten it, or send "
                '"truncate": true to have it cut'
            )
        return encoded

    async def _answers(self, rows: list[Ids], truncated: list[bool]) -> TextAnswers:
        lengths = [len(row["input_ids"]) for row in rows]
        logits = await self._batcher.submit(rows, lengths=lengths)
        return self.model.answers_of(rows, logits, truncated)

    async def _encoded(self, texts: Sequence[Text]) -> Encoded:
        return await self._beside(texts, self.model.encode, texts)

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
        """Logits of each row. One that is not finite fails them all, and the batcher asks each request's rows again by themselves.

        Raises:
            NotFinite: a logit is NaN or infinite.
        """
        logits = self.model.logits(rows)
        if not numpy.isfinite(logits).all():
            raise NotFinite(
                "the model computed no finite scores for this request", why="logits that are NaN or infinite"
            )
        return self.model.each(rows, logits)


def _characters(text: Text) -> int:
    return len(text) if isinstance(text, str) else len(text[0]) + len(text[1])
