"""A model of texts as serving and batch scoring use it: an engine with its tokenizer, texts in, token ids and an array for each text out.

Where a directory says everything itself and its engine is onnxruntime, neither torch nor transformers is imported.
"""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy

from ..errors import InvalidInput, first_line, need
from ..records.progress import track
from .artefacts import Runtime, get_runtime
from .batch_plans import TOKEN_BUDGET, token_batches
from .padding import Ids
from .plain_onnx import PlainOnnx, open_plain
from .runtime_files import check_hashes, engine_file
from .text_answers import ModelFacts, Text, TextAnswers
from .text_tokens import Encoded, characters_read, open_text_tokens

if TYPE_CHECKING:
    from .engine import Engine

_WARM_LENGTHS = (8, 32, 128)
_TIMED_LENGTHS, _TIMED_CALLS = (8, 64), 5
_REPAIR = "check that it belongs to the config beside it, or make it again"


class TextModel(ABC):
    """An engine with its tokenizer. A classifier of texts is one, and so is an encoder that gives vectors.

    Attributes:
        output: name of the engine's output that answers texts.
        plural: what the numbers in it are called.
        facts: what a caller may know of the model.
        streams: batches that the engine computes at a time.
        characters: how many of a text are read; None where its end is, whatever is before it.
    """

    output: ClassVar[str]
    plural: ClassVar[str]
    facts: ModelFacts

    def __init__(self, directory: str | Path, runtime: str, *, cores: int, max_length: int | None, verify: bool = True):
        """Opens a model directory.

        Args:
            cores: that it may use.
            max_length: tokens of a text, or of each of its windows; None for the model's positions, or as it was trained.
            verify: compare its files with the hashes in its record.

        Raises:
            InvalidInput: no such engine, a model of another kind, or one with fewer positions than `max_length`.
        """
        directory, chosen = Path(directory), get_runtime(runtime)
        engine_file(directory, runtime)
        if verify:
            check_hashes(directory, chosen)
        shares = chosen.share(cores)
        self.streams = shares.streams
        self.engine = _open_engine(directory, chosen, threads=shares.threads)
        config: Any = self.engine.config
        self.facts = self._read_facts(directory, max_length=max_length)
        self.characters = self._characters_read()
        self.tokens = open_text_tokens(directory, config, longest=self.facts.max_length, long=self.facts.long)

    @abstractmethod
    def _read_facts(self, directory: Path, *, max_length: int | None) -> ModelFacts:
        """What a caller may know of the opened model.

        Raises:
            InvalidInput: it is of another kind, or has fewer positions.
        """

    @abstractmethod
    def _shape_of_one(self, tokens: int) -> tuple[int, ...]:
        """The shape of what the engine gives for a text of so many tokens."""

    @abstractmethod
    def _counted(self) -> str:
        """How many numbers the engine must give, in words."""

    def _characters_read(self) -> int | None:
        """How many characters of a text are read; None where its end is."""
        long = self.facts.long
        return None if long.reads_end else characters_read(self.facts.max_length, long)

    def _common_facts(self) -> dict[str, Any]:
        """The fields that the facts of all kinds have, but for the longest text."""
        return {"inputs": self.engine.inputs, "runtime": self.engine.runtime.name}

    def answer(
        self,
        texts: Sequence[Text],
        *,
        token_budget: int = TOKEN_BUDGET,
        batch_size: int | None = None,
        description: str | None = None,
    ) -> TextAnswers:
        """What the engine gives for at least one text, computed in batches of similar lengths.

        Args:
            token_budget: tokens a batch, padding included.
            batch_size: texts a batch at most; None for no such bound.
            description: of a bar; None for none.
        """
        encoded = self.tokenise(texts)
        lengths = [len(row["input_ids"]) for row in encoded.rows]
        most = batch_size or max(1, len(encoded.rows))
        batches = [
            batch[start : start + most]
            for batch in token_batches(lengths, budget=token_budget)
            for start in range(0, len(batch), most)
        ]
        values: list[Any] = [None] * len(encoded.rows)

        def compute(batch: list[int]) -> None:
            rows = [encoded.rows[place] for place in batch]
            for place, of_row in zip(batch, self.each(rows, self.values(rows)), strict=True):
                values[place] = of_row

        with ThreadPoolExecutor(max_workers=self.streams) as pool:
            for _ in track(pool.map(compute, batches), total=len(batches), description=description):
                pass
        return self.answers_of(encoded, values)

    def answers_of(self, encoded: Encoded, values: list[numpy.ndarray]) -> TextAnswers:
        """What is said of texts, by the array of each of their rows."""
        return TextAnswers(numpy.stack(values), [len(row["input_ids"]) for row in encoded.rows], encoded.truncated)

    def each(self, rows: Sequence[Ids], values: numpy.ndarray) -> list[numpy.ndarray]:
        """The array of each of some rows."""
        return list(values)

    def values(self, rows: Sequence[Ids]) -> numpy.ndarray:
        """What the engine gives for rows of token ids, `[rows, …]`, fp32."""
        return self.engine.output(self.output, self.tokens.padding.pad(rows, self.facts.inputs))

    def tokenise(self, texts: Sequence[Text]) -> Encoded:
        """Tokenises, and cuts what is too long, or makes windows of it."""
        return self.tokens.encode(texts, longest=self.facts.max_length, long=self.facts.long)

    def compute(self, arrays: Mapping[str, numpy.ndarray]) -> numpy.ndarray:
        """What the engine of a model that was not tried before gives for rows without padding.

        Raises:
            InvalidInput: the engine fails, or gives anything but finite numbers, as many as it must.
        """
        rows, tokens = arrays["input_ids"].shape
        file = self.engine.file
        try:
            values = self.engine.output(self.output, arrays)
        except InvalidInput:
            raise
        except Exception as error:  # each runtime raises classes of its own, none of them public
            rule = f"{file} must compute what has {tokens} tokens"
            raise InvalidInput(rule, got=first_line(error), repair=_REPAIR) from error
        if values.shape != (rows, *self._shape_of_one(tokens)):
            raise InvalidInput(
                f"{file} must give {self._counted()}",
                got=f"shape {list(values.shape)} for {rows} texts",
                repair=_REPAIR,
            )
        if not numpy.isfinite(values).all():
            raise InvalidInput(
                f"{file} must give finite {self.plural}",
                got=f"{values[~numpy.isfinite(values)][0]} for {tokens} tokens",
                repair="check that the weights it was made from are finite, and make it again",
            )
        return values

    def warm_up(self) -> None:
        """Computes rows of several lengths, from the first token of the vocabulary to the last.

        Raises:
            InvalidInput: as `compute`.
        """
        for length in _WARM_LENGTHS:
            self.compute(self._made_up(rows=2, length=length))

    def call_tokens(self) -> float:
        """Tokens that take as long as a call of the engine does by itself, by the time of two lengths: a few on a processor in int8, hundreds
        where a call must reach a GPU. To be asked once it is warm."""
        short, long = (self._made_up(rows=1, length=length) for length in _TIMED_LENGTHS)
        token_s = (self._seconds(long) - self._seconds(short)) / max(
            1, long["input_ids"].size - short["input_ids"].size
        )
        if token_s <= 0:
            return math.inf
        return max(0.0, self._seconds(short) / token_s - short["input_ids"].size)

    def _seconds(self, arrays: Mapping[str, numpy.ndarray]) -> float:
        """Of the fastest of a few calls."""
        times = []
        for _ in range(_TIMED_CALLS):
            start = time.perf_counter()
            self.engine.output(self.output, arrays)
            times.append(time.perf_counter() - start)
        return min(times)

    def _made_up(self, *, rows: int, length: int) -> dict[str, numpy.ndarray]:
        """Rows without padding, from the first token of the vocabulary to the last."""
        wanted, last = min(length, self.facts.max_length), self.engine.config.vocab_size - 1
        ids = numpy.tile(numpy.linspace(0, last, wanted).astype(numpy.int64), (rows, 1))
        values = {"input_ids": ids, "attention_mask": numpy.ones_like(ids)}
        return {name: values.get(name, numpy.zeros_like(ids)) for name in self.facts.inputs}


def _open_engine(directory: Path, runtime: Runtime, *, threads: int) -> "Engine | PlainOnnx":
    """The engine of a directory whose files are there, without torch where it can be."""
    plain = open_plain(directory, runtime, threads=threads)
    if plain is not None:
        return plain
    need("torch", extra="cpu")
    from .engine import Engine

    return Engine.load(directory, runtime.name, threads=threads, verify=False)
