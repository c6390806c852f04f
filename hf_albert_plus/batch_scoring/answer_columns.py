"""The columns of the output that are a model's: labels and scores, tags, or vectors."""

from dataclasses import dataclass
from typing import Any

import numpy
import pyarrow

from ..engines.text_answers import AnswerRule, EncoderFacts, ModelFacts, Text, TextAnswers
from ..engines.text_words import tagged_texts, words_of

VECTOR = "vector"
_FLOATS, _NAMES = pyarrow.list_(pyarrow.float32()), pyarrow.list_(pyarrow.string())
_ENTITY: dict[Any, pyarrow.DataType] = {
    "label": pyarrow.string(), "text": pyarrow.string(), "start": pyarrow.int32(), "end": pyarrow.int32(), "score": pyarrow.float32(),
}  # fmt: skip
# What a tagger says of a text: its words with their tags, and the score of each, null of a word that was cut off; and its entities.
TAG_COLUMNS: dict[str, pyarrow.DataType] = {
    "words": _NAMES, "tags": _NAMES, "tag_scores": _FLOATS, "entities": pyarrow.list_(pyarrow.struct(list(_ENTITY.items()))),
}  # fmt: skip


@dataclass(frozen=True)
class LabelColumns:
    """The columns of a classifier of texts or of their words.

    Attributes:
        rule: how the model's logits become answers.
        with_logits: whether the raw logits have a column, a list a row in the order of the model's labels.
    """

    rule: AnswerRule
    with_logits: bool = False

    @property
    def types(self) -> dict[str, pyarrow.DataType]:
        """The columns by name. A classifier's label comes with its score and those of all labels in the model's order; where several labels
        may be given, those that are come with their scores, the highest first; a regression has its value, or its values. A tagger has the
        text's words and their tags, and the entities that these are."""
        of_model: dict[str, pyarrow.DataType]
        if self.rule.is_by_token:
            of_model = dict(TAG_COLUMNS)
        elif self.rule.has_best:
            of_model = {"label": pyarrow.string(), "score": pyarrow.float32(), "scores": _FLOATS}
        elif self.rule.has_several:
            of_model = {"labels": _NAMES, "label_scores": _FLOATS, "scores": _FLOATS}
        elif self.rule.is_number:
            of_model = {"score": pyarrow.float32()}
        else:
            of_model = {"scores": _FLOATS}
        return {**of_model, "logits": _FLOATS} if self.with_logits else of_model

    def values(self, texts: list[Text], answers: TextAnswers) -> dict[str, Any]:
        """What they hold of texts: a value for each of them."""
        said = self._said(texts, answers)
        return {**said, "logits": list(answers.values)} if self.with_logits else said

    def _said(self, texts: list[Text], answers: TextAnswers) -> dict[str, Any]:
        if self.rule.is_by_token:
            return _tags([text for text in texts if isinstance(text, str)], answers, self.rule)
        exact = self.rule.scores(answers.values)
        scores = exact.astype(numpy.float32)
        if self.rule.is_number:
            return {"score": scores[:, 0]}
        if self.rule.has_several:
            given = [self.rule.answer(row) for row in exact]
            return {
                "labels": [[each["label"] for each in row] for row in given],
                "label_scores": [[each["score"] for each in row] for row in given],
                "scores": list(scores),
            }
        if not self.rule.has_best:
            return {"scores": list(scores)}
        best = scores.argmax(axis=-1)
        return {
            "label": [self.rule.labels[place] for place in best],
            "score": scores[numpy.arange(len(scores)), best],
            "scores": list(scores),
        }


@dataclass(frozen=True)
class VectorColumns:
    """The column of an encoder.

    Attributes:
        dimension: numbers of a vector.
    """

    dimension: int

    @property
    def types(self) -> dict[str, pyarrow.DataType]:
        """The column by name: lists of one size, so that readers see them as a matrix."""
        return {VECTOR: pyarrow.list_(pyarrow.float32(), self.dimension)}

    def values(self, texts: list[Text], answers: TextAnswers) -> dict[str, Any]:
        """The vector of each text."""
        return {VECTOR: list(answers.values)}


AnswerColumns = LabelColumns | VectorColumns


def columns_of(facts: ModelFacts, *, with_logits: bool) -> AnswerColumns:
    """The columns that a model has.

    Args:
        with_logits: whether a classifier's raw logits are among them.
    """
    if isinstance(facts, EncoderFacts):
        return VectorColumns(facts.dimension)
    return LabelColumns(facts.rule, with_logits)


def _tags(texts: list[str], answers: TextAnswers, rule: AnswerRule) -> dict[str, Any]:
    """The columns of words, tags and entities."""
    said = tagged_texts([(text, words_of(text)) for text in texts], answers, rule)
    return {
        "words": [[word["word"] for word in each.words] for each in said],
        "tags": [[word["tag"] for word in each.words] for each in said],
        "tag_scores": [[word["score"] for word in each.words] for each in said],
        "entities": [each.entities for each in said],
    }
