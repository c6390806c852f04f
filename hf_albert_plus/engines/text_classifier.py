"""A classifier of texts or of their words, as serving and batch scoring use it: an engine with its tokenizer, texts in, token ids and logits out.

Where a directory says everything itself and its engine is onnxruntime, neither torch nor transformers is imported.
"""

import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy

from ..errors import InvalidInput, first_line, need
from ..tasks.joined_answers import text_logits, text_numbers, token_values
from ..tasks.word_pieces import joined
from .artefacts import Runtime, get_runtime
from .batch_plans import TOKEN_BUDGET, token_batches
from .classifier_config import answer_rule_of, length_taken, long_texts_of
from .padding import OFFSETS, Ids
from .plain_onnx import PlainOnnx, open_plain
from .runtime_files import check_hashes, engine_file
from .text_answers import AnswerRule, ClassifierFacts, LabelScore, Text, TextAnswers, TopK
from .text_tokens import Encoded, characters_read, open_text_tokens
from .text_words import TaggedText, tagged_texts, words_of

if TYPE_CHECKING:
    from .engine import Engine

_WARM_LENGTHS = (8, 32, 128)
_TIMED_LENGTHS, _TIMED_CALLS = (8, 64), 5


class TextClassifier:
    """An engine of a classifier with its tokenizer.

    Attributes:
        facts: what a caller may know of it.
        streams: batches that the engine computes at a time.
        characters: how many of a text are read; None where its end is, whatever is before it.
    """

    def __init__(self, directory: str | Path, runtime: str, *, cores: int, max_length: int | None, verify: bool = True):
        """Opens a model directory.

        Args:
            cores: that it may use.
            max_length: tokens of a text, or of each of its windows; None for the model's positions, or as it was trained (see `length_taken`).
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
            rule=_rule(directory, config),
            inputs=self.engine.inputs,
            max_length=length_taken(config, directory, max_length=max_length),
            runtime=runtime,
            long=long_texts_of(directory),
        )
        of_text = characters_read(self.facts.max_length, self.facts.long)
        self.characters = None if self.facts.long.reads_end else of_text
        self.tokens = open_text_tokens(directory, config, longest=self.facts.max_length, long=self.facts.long)

    def classify(self, texts: Sequence[Text], *, top_k: TopK = "given") -> list[list[LabelScore]]:
        """The labels of each text with their scores, the highest first, as transformers' pipeline gives them.

        Args:
            texts: a text each, or a pair of them; what is too long is cut, or read in windows, as the model was
                trained.
            top_k: `"given"` for the best label of a text, for every label that reaches its threshold (possibly none) where there may be
                several, and for the value of a regression; a number for so many labels, the best; None for all.

        Raises:
            InvalidInput: a number below 1, or a model that tags words.
        """
        if self.facts.rule.is_by_token:
            raise InvalidInput("a tagger answers words, not texts", got=str(self.engine.file), repair="call tag()")
        if isinstance(top_k, int) and top_k < 1:
            raise InvalidInput("top_k must be at least 1", got=top_k, repair="use 1, or None for all labels")
        if not texts:
            return []
        scores = self.facts.rule.scores(self.answer(texts).logits)
        return [self.facts.rule.answer(row, top_k=top_k) for row in scores]

    def tag(self, texts: Sequence[str | Sequence[str]]) -> list[TaggedText]:
        """The tags of each text's words, and the entities that they are.

        Args:
            texts: a text each, whose words are found (see `words_of`), or its words; what is too long is cut, or read
                in windows, as the model was trained.

        Raises:
            InvalidInput: a model that tags no words.
        """
        if not self.facts.rule.is_by_token:
            raise InvalidInput(
                "a classifier answers texts, not words", got=str(self.engine.file), repair="call classify()"
            )
        if not texts:
            return []
        read = [(text, words_of(text)) if isinstance(text, str) else joined(text) for text in texts]
        return tagged_texts(read, self.answer([text for text, _ in read]), self.facts.rule)

    def answer(self, texts: Sequence[Text], *, token_budget: int = TOKEN_BUDGET) -> TextAnswers:
        """Logits of at least one text, computed in batches of similar lengths.

        Args:
            token_budget: tokens a batch, padding included.
        """
        encoded = self.encode(texts)
        lengths = [len(row["input_ids"]) for row in encoded.rows]
        batches = token_batches(lengths, budget=token_budget)
        logits: list[Any] = [None] * len(encoded.rows)

        def compute(batch: list[int]) -> None:
            rows = [encoded.rows[place] for place in batch]
            for place, of_row in zip(batch, self.each(rows, self.logits(rows)), strict=True):
                logits[place] = of_row

        with ThreadPoolExecutor(max_workers=self.streams) as pool:
            for future in [pool.submit(compute, batch) for batch in batches]:
                future.result()
        return self.answers_of(encoded, logits)

    def answers_of(self, encoded: Encoded, logits: list[numpy.ndarray]) -> TextAnswers:
        """What is said of texts, by the logits of each of their rows; those of windows are joined."""
        tokens = [len(row["input_ids"]) for row in encoded.rows]
        offsets = [row[OFFSETS] for row in encoded.rows if OFFSETS in row]
        rule, rows = self.facts.rule, encoded.answering
        if rows is None:
            return TextAnswers(logits if rule.is_by_token else numpy.stack(logits), tokens, encoded.truncated, offsets)
        texts = text_numbers(rows)
        tokens = numpy.bincount(texts, weights=tokens).astype(int).tolist()
        if not rule.is_by_token:
            joined_NC = text_logits(numpy.stack(logits), texts, has_several=rule.has_several)
            return TextAnswers(joined_NC, tokens, encoded.truncated)
        joined_TSC = [numpy.stack(of_text) for of_text in token_values(logits, rows)]
        return TextAnswers(joined_TSC, tokens, encoded.truncated, token_values(offsets, rows))

    def each(self, rows: Sequence[Ids], logits: numpy.ndarray) -> list[numpy.ndarray]:
        """The logits of each of some rows, of a tagger those of its tokens, without what stands at padding."""
        if not self.facts.rule.is_by_token:
            return list(logits)
        return self.tokens.padding.unpadded(logits, [len(row["input_ids"]) for row in rows])

    def logits(self, rows: Sequence[Ids]) -> numpy.ndarray:
        """Logits `[rows, labels]` of rows of token ids, or `[rows, longest, labels]` of a tagger, fp32, as the engine gives them."""
        return self.engine.logits(self.tokens.padding.pad(rows, self.facts.inputs))

    def compute(self, arrays: Mapping[str, numpy.ndarray]) -> numpy.ndarray:
        """Logits `[rows, labels]`, or `[rows, tokens, labels]` of a tagger, of a model that was not tried before.

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
        by_token = (tokens,) if self.facts.rule.is_by_token else ()
        if logits.shape != (rows, *by_token, labels):
            raise InvalidInput(
                f"{file} must give {labels} logits for a {'token' if by_token else 'text'}, one for each label of its config",
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
        """Tokenises, and cuts what is too long, or makes windows of it."""
        return self.tokens.encode(texts, longest=self.facts.max_length, long=self.facts.long)


def _open_engine(directory: Path, runtime: Runtime, *, threads: int) -> "Engine | PlainOnnx":
    """The engine of a directory whose files are there, without torch where it can be."""
    plain = open_plain(directory, runtime, threads=threads)
    if plain is not None:
        return plain
    need("torch", extra="cpu")
    from .engine import Engine

    return Engine.load(directory, runtime.name, threads=threads, verify=False)


def _rule(directory: Path, config: Any) -> AnswerRule:
    """How a model's logits become answers; tags have the scheme of the task that they were learned of, where it is known."""
    rule = answer_rule_of(config)
    if not rule.is_by_token:
        return rule
    from ..tasks.task_file import read_task

    task = read_task(directory)
    return rule if task is None or task.tag_scheme is None else replace(rule, scheme=task.tag_scheme)
