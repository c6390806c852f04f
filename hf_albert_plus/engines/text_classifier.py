"""A model of texts, of their words, or of questions, as serving and batch scoring use it: texts in, labels, tags and answers out."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy

from ..errors import InvalidInput
from ..tasks.joined_answers import text_logits, text_numbers, token_values
from .classifier_config import answer_rule_of, check_gives_labels, classifier_length, long_texts_of
from .padding import OFFSETS, Ids
from .questions import AskedQuestions, asked, context_characters
from .text_answers import AnswerRule, AnswerSpan, ClassifierFacts, LabelScore, Text, TextAnswers, TopK
from .text_model import TextModel
from .text_tokens import Encoded
from .text_words import TaggedText, tagged_texts, worded


class TextClassifier(TextModel):
    """An engine of a classifier with its tokenizer: an array of logits for each text, `[labels]`, or `[tokens, labels]` of a tagger
    or of spans."""

    output = plural = "logits"
    facts: ClassifierFacts

    def classify(self, texts: Sequence[Text], *, top_k: TopK = "given") -> list[list[LabelScore]]:
        """The labels of each text with their scores, the highest first, as transformers' pipeline gives them.

        Args:
            texts: a text each, or a pair of them; what is too long is cut, or read in windows, as the model was
                trained.
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
        scores = self.facts.rule.scores(self.answer(texts).values)
        return [self.facts.rule.answer(row, top_k=top_k) for row in scores]

    def tag(self, texts: Sequence[str | Sequence[str]]) -> list[TaggedText]:
        """The tags of each text's words, and the entities that they are.

        Args:
            texts: a text each, whose words are found (see `words_of`), or its words; what is too long is cut, or read
                in windows, as the model was trained.

        Raises:
            InvalidInput: a model that tags no words, or what is no text or no words (see `worded`).
        """
        if not self.facts.rule.is_by_token:
            call = "ask()" if self.facts.rule.has_spans else "classify()"
            raise InvalidInput(
                "a classifier answers texts, not words", got=str(self.engine.file), repair=f"call {call}"
            )
        if not texts:
            return []
        read = worded(texts)
        return tagged_texts(read, self.answer([text for text, _ in read]), self.facts.rule)

    def ask(self, questions: Sequence[tuple[str, str]], *, threshold: float | None = None) -> list[AnswerSpan | None]:
        """The answer to each question, a span of its context; None where the context has none.

        Args:
            questions: each with its context. A long one is read in windows.
            threshold: by how much the logit of no answer may exceed the span's; None for the model's own. One that always answers has none.

        Raises:
            InvalidInput: a model that answers no questions, a question or context that is empty or no text, a question that leaves no room for its
                context, or a threshold that is no number.
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

    def tokenise(self, texts: Sequence[Text]) -> Encoded:
        """Tokenises, and cuts what is too long, or makes windows of it; of questions, see `asked`."""
        return self.asked(texts) if self.facts.rule.has_spans else super().tokenise(texts)

    def asked(self, texts: Sequence[Text]) -> AskedQuestions:
        """Tokenises questions with their contexts, and cuts these into windows (see `asked` of `questions`)."""
        return asked(texts, whole=self.tokens.whole, inputs=self.facts.inputs, max_length=self.facts.max_length)

    def answers_of(self, encoded: Encoded, values: list[numpy.ndarray]) -> TextAnswers:
        """What is said of texts, by the logits of each of their rows; those of windows are joined."""
        rule, rows = self.facts.rule, encoded.answering
        if isinstance(encoded, AskedQuestions):
            return encoded.answers(values, rule)
        if rows is None and not rule.has_logits_of_tokens:
            return super().answers_of(encoded, values)
        tokens = [len(row["input_ids"]) for row in encoded.rows]
        offsets = [row[OFFSETS] for row in encoded.rows if OFFSETS in row]
        if rows is None:
            return TextAnswers(values, tokens, encoded.truncated, offsets)
        texts = text_numbers(rows)
        tokens = numpy.bincount(texts, weights=tokens).astype(int).tolist()
        if not rule.is_by_token:
            joined_NC = text_logits(numpy.stack(values), texts, has_several=rule.has_several)
            return TextAnswers(joined_NC, tokens, encoded.truncated)
        joined_TSC = [numpy.stack(of_text) for of_text in token_values(values, rows)]
        return TextAnswers(joined_TSC, tokens, encoded.truncated, token_values(offsets, rows))

    def each(self, rows: Sequence[Ids], values: numpy.ndarray) -> list[numpy.ndarray]:
        """The logits of each of some rows, of a tagger or of spans those of its tokens, without what stands at padding."""
        if not self.facts.rule.has_logits_of_tokens:
            return list(values)
        return self.tokens.padding.unpadded(values, [len(row["input_ids"]) for row in rows])

    def _read_facts(self, directory: Path, *, max_length: int | None) -> ClassifierFacts:
        config: Any = self.engine.config
        check_gives_labels(config, directory)
        return ClassifierFacts(
            rule=_rule(directory, config),
            max_length=classifier_length(config, directory, max_length=max_length),
            long=long_texts_of(directory),
            **self._common_facts(),
        )

    def _characters_read(self) -> int | None:
        return context_characters(self.facts.max_length) if self.facts.rule.has_spans else super()._characters_read()

    def _shape_of_one(self, tokens: int) -> tuple[int, ...]:
        labels = len(self.facts.rule.labels)
        return (tokens, labels) if self.facts.rule.has_logits_of_tokens else (labels,)

    def _counted(self) -> str:
        of_what = "token" if self.facts.rule.has_logits_of_tokens else "text"
        return f"{len(self.facts.rule.labels)} logits for a {of_what}, one for each label of its config"


def _rule(directory: Path, config: Any) -> AnswerRule:
    """How a model's logits become answers; tags have the scheme of the task that they were learned of, where it is known."""
    rule = answer_rule_of(config)
    if not rule.is_by_token:
        return rule
    from ..tasks.task_file import read_task

    task = read_task(directory)
    return rule if task is None or task.tag_scheme is None else replace(rule, scheme=task.tag_scheme)
