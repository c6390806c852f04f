"""A classifier of texts, as serving and batch scoring use it: an engine with its tokenizer, texts in, token ids and logits out.

Where a directory says everything itself and its engine is onnxruntime, neither torch nor transformers is imported.
"""

import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy

from ..errors import InvalidInput, first_line, need
from .artefacts import Runtime, get_runtime
from .batch_plans import TOKEN_BUDGET, token_batches
from .classifier_config import answer_rule_of, length_taken
from .padding import Ids
from .plain_onnx import PlainOnnx, open_plain
from .runtime_files import check_hashes, engine_file
from .text_answers import ClassifierFacts, LabelScore, Text, TextAnswers, TopK
from .text_tokens import Encoded, characters_read, open_text_tokens

if TYPE_CHECKING:
    from .engine import Engine

_WARM_LENGTHS = (8, 32, 128)
_TIMED_LENGTHS, _TIMED_CALLS = (8, 64), 5


class TextClassifier:
    """An engine of a classifier with its tokenizer.

    Attributes:
        facts: what a caller may know of it.
        streams: batches that the engine computes at a time.
        characters: how many of a text are read.
    """

    def __init__(self, directory: str | Path, runtime: str, *, cores: int, max_length: int | None, verify: bool = True):
        """Opens a model directory.

        Args:
            cores: that it may use.
            max_length: tokens of a text, None for the model's positions.
            verify: compare its files with the hashes in its record.

        Raises:
            InvalidInput: no such engine, no classifier, or one with fewer positions than `max_length`.
        """
        directory, chosen = Path(directory), get_runtime(runtime)
        engine_file(directory, runtime)
        if verify:
            check_hashes(directory, chosen)
        shares = chosen.share(cores)
        self.streams = shares.streams
        self.engine = _open_engine(directory, chosen, threads=shares.threads)
        config: Any = self.engine.config
        self.facts = ClassifierFacts(
            rule=answer_rule_of(config),
            inputs=self.engine.inputs,
            max_length=length_taken(config, directory, max_length=max_length),
            runtime=runtime,
        )
        self.characters = characters_read(self.facts.max_length)
        self.tokens = open_text_tokens(directory, config, longest=self.facts.max_length)

    def classify(self, texts: Sequence[Text], *, top_k: TopK = "given") -> list[list[LabelScore]]:
        """The labels of each text with their scores, the highest first, as transformers' pipeline gives them.

        Args:
            texts: a text each, or a pair of them; what is too long is cut.
            top_k: `"given"` for the best label of a text, for every label that reaches its threshold (possibly none) where there may be
                several, and for the value of a regression; a number for so many labels, the best; None for all.

        Raises:
            InvalidInput: a number below 1.
        """
        if isinstance(top_k, int) and top_k < 1:
            raise InvalidInput("top_k must be at least 1", got=top_k, repair="use 1, or None for all labels")
        if not texts:
            return []
        scores = self.facts.rule.scores(self.answer(texts).logits)
        return [self.facts.rule.answer(row, top_k=top_k) for row in scores]

    def answer(self, texts: Sequence[Text], *, token_budget: int = TOKEN_BUDGET) -> TextAnswers:
        """Logits of at least one text, computed in batches of similar lengths.

        Args:
            token_budget: tokens a batch, padding included.
        """
        encoded = self.encode(texts)
        lengths = [len(row["input_ids"]) for row in encoded.rows]
        batches = token_batches(lengths, budget=token_budget)
        logits = numpy.empty((len(texts), len(self.facts.rule.labels)), dtype=numpy.float32)

        def compute(batch: list[int]) -> None:
            logits[batch] = self.logits([encoded.rows[place] for place in batch])

        with ThreadPoolExecutor(max_workers=self.streams) as pool:
            for future in [pool.submit(compute, batch) for batch in batches]:
                future.result()
        return TextAnswers(logits, lengths, encoded.truncated)

    def logits(self, rows: Sequence[Ids]) -> numpy.ndarray:
        """Logits `[rows, labels]` of rows of token ids, fp32, as the engine gives them."""
        return self.engine.logits(self.tokens.padding.pad(rows, self.facts.inputs))

    def compute(self, arrays: Mapping[str, numpy.ndarray]) -> numpy.ndarray:
        """Logits `[rows, labels]` of a model that was not tried before.

        Raises:
            InvalidInput: the engine fails, or its logits are no finite number for each label of each row.
        """
        rows, tokens = arrays["input_ids"].shape
        file, labels = self.engine.file, len(self.facts.rule.labels)
        repair = "check that it belongs to the config beside it, or make it again"
        try:
            logits = self.engine.logits(arrays)
        except InvalidInput:
            raise
        except Exception as error:  # each runtime raises classes of its own, none of them public
            rule = f"{file} must compute what has {tokens} tokens"
            raise InvalidInput(rule, got=first_line(error), repair=repair) from error
        if logits.shape != (rows, labels):
            raise InvalidInput(
                f"{file} must give {labels} logits for a text, one for each label of its config",
                got=f"shape {list(logits.shape)} for {rows} texts",
                repair=repair,
            )
        if not numpy.isfinite(logits).all():
            raise InvalidInput(
                f"{file} must give finite logits",
                got=f"{logits[~numpy.isfinite(logits)][0]} for {tokens} tokens",
                repair="check that the weights it was made from are finite, and make it again",
            )
        return logits

    def warm_up(self) -> None:
        """Computes rows of several lengths, from the first token of the vocabulary to the last.

        Raises:
            InvalidInput: the engine fails, or its logits are no finite number for each label.
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
            self.engine.logits(arrays)
            times.append(time.perf_counter() - start)
        return min(times)

    def _made_up(self, *, rows: int, length: int) -> dict[str, numpy.ndarray]:
        """Rows without padding, from the first token of the vocabulary to the last."""
        wanted, last = min(length, self.facts.max_length), self.engine.config.vocab_size - 1
        ids = numpy.tile(numpy.linspace(0, last, wanted).astype(numpy.int64), (rows, 1))
        values = {"input_ids": ids, "attention_mask": numpy.ones_like(ids)}
        return {name: values.get(name, numpy.zeros_like(ids)) for name in self.facts.inputs}

    def encode(self, texts: Sequence[Text]) -> Encoded:
        """Tokenises, and cuts what is too long."""
        return self.tokens.encode(texts, longest=self.facts.max_length)


def _open_engine(directory: Path, runtime: Runtime, *, threads: int) -> "Engine | PlainOnnx":
    """The engine of a directory whose files are there, without torch where it can be."""
    plain = open_plain(directory, runtime, threads=threads)
    if plain is not None:
        return plain
    need("torch", extra="cpu")
    from .engine import Engine

    return Engine.load(directory, runtime.name, threads=threads, verify=False)
