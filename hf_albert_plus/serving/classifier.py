"""A model as requests see it: texts or token ids in, scores of its labels out, batches made on the way."""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy
import torch

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.export.batching import pad_rows
from hf_albert_plus.export.engines import Engine, physical_cores
from hf_albert_plus.export.inputs import check_tensors, longest_input
from hf_albert_plus.export.runtimes import get_runtime
from hf_albert_plus.glue import load_tokenizer
from hf_albert_plus.heads import architecture_of

from .answers import Answers, Facts, Text
from .batcher import TokenBatcher
from .errors import Unusable
from .settings import ServeSettings

Ids = Mapping[str, list[int]]
_WARM_LENGTHS = (8, 32, 128)
# More than any tokenizer makes one token of; what is beyond is refused or cut before it costs a tokenizer's time.
_CHARACTERS_A_TOKEN = 64


class Classifier:
    """An engine with its tokenizer and its queue. One event loop calls it."""

    def __init__(self, directory: str | Path, runtime: str, settings: ServeSettings):
        """Opens and warms up.

        Raises:
            InvalidInput: no such engine, no classifier, or one with fewer positions than `max_length`.
        """
        cores = settings.streams or physical_cores()
        # A batch on each core, where the runtime can.
        threads, streams = (1, cores) if get_runtime(runtime).concurrent else (cores, 1)
        self.engine = Engine.load(directory, runtime, threads=threads)
        config: Any = self.engine.config
        if not architecture_of(config).endswith("ForSequenceClassification"):
            raise InvalidInput(
                "a server runs sequence classifiers",
                got=f"{architecture_of(config)} in {directory}",
                repair="fine-tune one: albert-plus finetune",
            )
        longest = longest_input(config)
        if settings.max_length is not None and settings.max_length > longest:
            raise InvalidInput(
                f"--max-length must not exceed the {longest} positions of {directory}",
                got=settings.max_length,
                repair=f"use --max-length {longest}",
            )
        self.settings = settings
        self.tokenizer: Any = load_tokenizer(Path(directory), config)
        self.facts = Facts(
            labels=tuple(str(config.id2label[number]) for number in range(config.num_labels)),
            inputs=self.engine.inputs,
            max_length=settings.max_length or longest,
            runtime=runtime,
            problem_type=_problem_type(config),
        )
        self._tokenising = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tokenise")
        self._batcher: TokenBatcher[Ids] = TokenBatcher(
            self._run,
            budget=settings.token_budget,
            wait_s=settings.wait_ms / 1e3,
            streams=streams,
            bound=settings.max_waiting,
        )
        for length in _WARM_LENGTHS:
            wanted = min(length, self.facts.max_length)
            self._run(
                [{name: [0] * wanted if name != "attention_mask" else [1] * wanted for name in self.facts.inputs}]
            )

    @property
    def waiting_tokens(self) -> int:
        return self._batcher.waiting_tokens

    async def classify(self, texts: Sequence[Text], *, truncate: bool) -> Answers:
        """Tokenises and classifies.

        Args:
            texts: a text each, or a pair of them.

        Raises:
            Unusable: a text that is too long and not to be cut.
            Overloaded: more waits than may.
        """
        longest = self.facts.max_length
        characters = _CHARACTERS_A_TOKEN * longest
        for place, text in enumerate(texts):
            if not truncate and sum(map(len, (text,) if isinstance(text, str) else text)) > characters:
                raise Unusable(
                    f"text {place} has more than {characters} characters, the most that is read for {longest} tokens: shorten it, or send "
                    '"truncate": true to have it cut'
                )
        shortened = [_shortened(text, characters) for text in texts]
        encoded = await self._encoded(shortened)
        tokens = [len(row["input_ids"]) for row in encoded]
        too_long = [place for place, length in enumerate(tokens) if length > longest]
        if too_long and not truncate:
            first = too_long[0]
            raise Unusable(
                f"text {first} has {tokens[first]} tokens, and the model takes at most {longest}: shorten it, or send "
                '"truncate": true to have it cut'
            )
        if too_long:
            cut = await self._encoded([shortened[place] for place in too_long], max_length=longest)
            for place, row in zip(too_long, cut, strict=True):
                encoded[place] = row
        lengths = [len(row["input_ids"]) for row in encoded]
        logits = await self._batcher.submit(encoded, lengths=lengths)
        was_cut = [
            length > longest or text is not given for length, text, given in zip(tokens, shortened, texts, strict=True)
        ]
        return Answers(numpy.stack(logits), lengths, was_cut)

    async def infer(self, tensors: Mapping[str, numpy.ndarray]) -> Answers:
        """Classifies rows of token ids, `[n, S]` int64 each; a mask of ones and token types of 0 where there are none.

        Raises:
            Unusable: ids that the model does not know, too many of them, or padding where there can be none.
            Overloaded: more waits than may.
        """
        rows = self._rows(tensors)
        lengths = [len(row["input_ids"]) for row in rows]
        logits = await self._batcher.submit(rows, lengths=lengths)
        return Answers(numpy.stack(logits), lengths, [False] * len(rows))

    async def close(self) -> None:
        await self._batcher.close()
        self._tokenising.shutdown()

    async def _encoded(self, texts: Sequence[Text], *, max_length: int | None = None) -> list[Ids]:
        # One thread: a tokenizer keeps what it was last told of truncation.
        return await asyncio.get_running_loop().run_in_executor(self._tokenising, self._encode, texts, max_length)

    def _encode(self, texts: Sequence[Text], max_length: int | None) -> list[Ids]:
        rows: list[Ids] = [{}] * len(texts)
        cut = {"truncation": True, "max_length": max_length} if max_length else {"truncation": False}
        for is_pair in (False, True):
            places = [place for place, text in enumerate(texts) if isinstance(text, tuple) == is_pair]
            if not places:
                continue
            chosen: Any = [texts[place] for place in places]
            columns = [list(column) for column in zip(*chosen, strict=True)] if is_pair else [chosen]
            encoded = self.tokenizer(*columns, **cut, verbose=False)
            for number, place in enumerate(places):
                rows[place] = {name: encoded[name][number] for name in self.facts.inputs}
        return rows

    def _rows(self, tensors: Mapping[str, numpy.ndarray]) -> list[Ids]:
        """The rows of `[n, S]` tensors without their padding."""
        given = dict(tensors)
        ids = given.get("input_ids")
        if ids is not None and "attention_mask" not in given:
            given["attention_mask"] = numpy.ones_like(ids)
        if ids is not None and "token_type_ids" in self.facts.inputs and "token_type_ids" not in given:
            given["token_type_ids"] = numpy.zeros_like(ids)
        checked = {name: torch.from_numpy(numpy.ascontiguousarray(value)) for name, value in given.items()}
        try:
            check_tensors(checked, self.facts.inputs, self.engine.config)
        except InvalidInput as error:
            raise Unusable(str(error)) from None
        mask = given["attention_mask"]
        counts, side = mask.sum(axis=1), self.tokenizer.padding_side
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
        tensors = pad_rows([dict(row) for row in rows], self.tokenizer)
        return list(self.engine(**tensors)["logits"].numpy())


def _problem_type(config: Any) -> str:
    if config.problem_type is not None:
        return str(config.problem_type)
    return "regression" if config.num_labels == 1 else "single_label_classification"


def _shortened(text: Text, characters: int) -> Text:
    """A text, or each of a pair, with no more characters than could matter; the very same one where it has no more."""
    if isinstance(text, str):
        return text if len(text) <= characters else text[:characters]
    return text if max(map(len, text)) <= characters else (text[0][:characters], text[1][:characters])


__all__ = ["Classifier"]
