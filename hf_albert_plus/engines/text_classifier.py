"""A model of texts, of their words, or of questions, as serving and batch scoring use it: an engine with its tokenizer, texts in, answers out.

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
from ..tasks.word_pieces import joined
from .artefacts import Runtime, get_runtime
from .batch_plans import TOKEN_BUDGET, token_batches
from .classifier_config import answer_rule_of, length_taken
from .padding import OFFSETS, Ids
from .plain_onnx import PlainOnnx, open_plain
from .questions import AskedQuestions, asked, context_characters
from .runtime_files import check_hashes, engine_file
from .text_answers import AnswerRule, AnswerSpan, ClassifierFacts, LabelScore, Text, TextAnswers, TopK
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
            rule=_rule(directory, config),
            inputs=self.engine.inputs,
            max_length=length_taken(config, directory, max_length=max_length),
            runtime=runtime,
        )
        read = context_characters if self.facts.rule.has_spans else characters_read
        self.characters = read(self.facts.max_length)
        self.tokens = open_text_tokens(directory, config, longest=self.facts.max_length)

    def classify(self, texts: Sequence[Text], *, top_k: TopK = "given") -> list[list[LabelScore]]:
        """The labels of each text with their scores, the highest first, as transformers' pipeline gives them.

        Args:
            texts: a text each, or a pair of them; what is too long is cut.
            top_k: `"given"` for the best label of a text, for every label that reaches its threshold (possibly none) where there may be
                several, and for the value of a regression; a number for so many labels, the best; None for all.

        Raises:
            InvalidInput: a number below 1, or a model that tags words or answers questions.
        """
        if self.facts.rule.is_by_token:
            raise InvalidInput("a tagger answers words, not texts", got=str(self.engine.file), repair="call tag()")
        if self.facts.rule.has_spans:
            raise InvalidInput("a model of spans answers questions", got=str(self.engine.file), repair="call ask()")
        if isinstance(top_k, int) and top_k < 1:
            raise InvalidInput("top_k must be at least 1", got=top_k, repair="use 1, or None for all labels")
        if not texts:
            return []
        scores = self.facts.rule.scores(self.answer(texts).logits)
        return [self.facts.rule.answer(row, top_k=top_k) for row in scores]

    def tag(self, texts: Sequence[str | Sequence[str]]) -> list[TaggedText]:
        """The tags of each text's words, and the entities that they are.

        Args:
            texts: a text each, whose words are found (see `words_of`), or its words; what is too long is cut.

        Raises:
            InvalidInput: a model that tags no words.
        """
        if not self.facts.rule.is_by_token:
            call = "ask()" if self.facts.rule.has_spans else "classify()"
            raise InvalidInput(
                "a classifier answers texts, not words", got=str(self.engine.file), repair=f"call {call}"
            )
        if not texts:
            return []
        read = [(text, words_of(text)) if isinstance(text, str) else joined(text) for text in texts]
        return tagged_texts(read, self.answer([text for text, _ in read]), self.facts.rule)

    def ask(self, questions: Sequence[tuple[str, str]], *, threshold: float | None = None) -> list[AnswerSpan | None]:
        """The answer to each question, a span of its context; None where the context has none.

        Args:
            questions: each with its context. A long one is read in windows.
            threshold: by how much the logit of no answer may exceed the span's; None for the model's own. One that always answers has none.

        Raises:
            InvalidInput: a model that answers no questions, an empty question or context, or a question that leaves no room for its context.
        """
        if not self.facts.rule.has_spans:
            raise InvalidInput(
                "a classifier answers texts, not questions",
                got=str(self.engine.file),
                repair="call classify() or tag()",
            )
        limit = self.facts.rule.threshold_of(threshold)
        spans = self.answer(questions).spans if questions else ()
        return [span if span.is_given(limit) else None for span in spans]

    def answer(self, texts: Sequence[Text], *, token_budget: int = TOKEN_BUDGET) -> TextAnswers:
        """What the model says of at least one text, computed in batches of similar lengths.

        Args:
            token_budget: tokens a batch, padding included.
        """
        if self.facts.rule.has_spans:
            questions = self.asked(texts)
            return questions.answers(self._logits_of(questions.rows, token_budget), self.facts.rule)
        encoded = self.encode(texts)
        return self.answers_of(encoded.rows, self._logits_of(encoded.rows, token_budget), encoded.truncated)

    def _logits_of(self, rows: Sequence[Ids], token_budget: int) -> list[Any]:
        """The logits of each row."""
        batches = token_batches([len(row["input_ids"]) for row in rows], budget=token_budget)
        logits: list[Any] = [None] * len(rows)

        def compute(batch: list[int]) -> None:
            chosen = [rows[place] for place in batch]
            for place, of_row in zip(batch, self.each(chosen, self.logits(chosen)), strict=True):
                logits[place] = of_row

        with ThreadPoolExecutor(max_workers=self.streams) as pool:
            for future in [pool.submit(compute, batch) for batch in batches]:
                future.result()
        return logits

    def answers_of(self, rows: Sequence[Ids], logits: list[numpy.ndarray], truncated: list[bool]) -> TextAnswers:
        """What is said of rows, of the logits of each."""
        lengths = [len(row["input_ids"]) for row in rows]
        if not self.facts.rule.has_logits_of_tokens:
            return TextAnswers(numpy.stack(logits), lengths, truncated)
        return TextAnswers(logits, lengths, truncated, [row[OFFSETS] for row in rows if OFFSETS in row])

    def each(self, rows: Sequence[Ids], logits: numpy.ndarray) -> list[numpy.ndarray]:
        """The logits of each of some rows, of a tagger or of spans those of its tokens, without what stands at padding."""
        if not self.facts.rule.has_logits_of_tokens:
            return list(logits)
        return self.tokens.padding.unpadded(logits, [len(row["input_ids"]) for row in rows])

    def logits(self, rows: Sequence[Ids]) -> numpy.ndarray:
        """Logits `[rows, labels]` of rows of token ids, or `[rows, longest, labels]` of a tagger or of spans, fp32, as the engine gives them."""
        return self.engine.logits(self.tokens.padding.pad(rows, self.facts.inputs))

    def compute(self, arrays: Mapping[str, numpy.ndarray]) -> numpy.ndarray:
        """Logits `[rows, labels]`, or `[rows, tokens, labels]` of a tagger or of spans, of a model that was not tried before.

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
        by_token = (tokens,) if self.facts.rule.has_logits_of_tokens else ()
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
        """Tokenises, and cuts what is too long."""
        return self.tokens.encode(texts, longest=self.facts.max_length)

    def asked(self, texts: Sequence[Text]) -> AskedQuestions:
        """Tokenises questions with their contexts, and cuts these into windows (see `asked` of `questions`)."""
        return asked(texts, whole=self.tokens.whole, inputs=self.facts.inputs, max_length=self.facts.max_length)


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
