"""What a model of texts takes and gives: texts, the facts that a caller may know of it, logits or vectors, and the answers that they are.

n texts, C labels, H numbers of a vector.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal

import numpy
from typing_extensions import TypedDict

from ..errors import InvalidInput
from ..tasks.long_texts import CUT, LongTexts
from ..tasks.tag_schemes import TagScheme
from ..tasks.word_pieces import Span

# The problem type of a model that gives each token a label; transformers has no name for it.
TAGGING = "token_classification"
# That of a model whose answers are spans of a question's context.
QUESTION_ANSWERING = "question_answering"
# Tokens of an answer, where a config does not say (the script of Devlin et al. 2019).
LONGEST_ANSWER = 30
# A text, or a pair of them that are read together.
Text = str | tuple[str, str]
# How many labels an answer has: so many, the best ones; None for all; or those that the classifier gives the text.
TopK = int | Literal["given"] | None
# From values of texts, `[n, C]`, to what is decided of each, `[n]` or `[n, C]`.
Decide = Callable[[numpy.ndarray], numpy.ndarray]


def is_finite_number(value: Any) -> bool:
    """Whether a value is a number, a finite one; True and False are none."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def check_characters(text: str, *, what: str, place: int) -> None:
    """Refuses half of a surrogate pair, which no tokenizer reads.

    Raises:
        InvalidInput: such a half.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(
            f"a {what} must be made of characters",
            got=f"half of a surrogate pair in text {place}",
            repair='decode it again, as bytes.decode(errors="replace") does',
        ) from None


class LabelScore(TypedDict):
    """A label with its score, as transformers' pipelines give it; of a regression, the name of a number with its value."""

    label: str
    score: float


@dataclass(frozen=True)
class AnswerRule:
    """How the logits of a classifier become answers.

    Attributes:
        labels: their names, in the order of the logits.
        problem_type: `single_label_classification`, whose answer is the best label; `multi_label_classification`, whose answer is every
            label that reaches its threshold, or none; `regression`, whose values are no scores of labels; `token_classification`, which
            has the best label of each token; or `question_answering`, whose logits say of each token whether an answer starts or ends there.
        thresholds: of several labels, the probability from which each is given; empty otherwise.
        scheme: of tags, how they say where entities begin and end.
        longest_answer: of spans, tokens of an answer at most.
        no_answer_threshold: of spans, by how much the logit of no answer may exceed that of the best one, which is given up to there; None of
            a model that always gives one.
    """

    labels: tuple[str, ...]
    problem_type: str
    thresholds: tuple[float, ...] = ()
    scheme: TagScheme = "plain"
    longest_answer: int = LONGEST_ANSWER
    no_answer_threshold: float | None = None

    @property
    def has_best(self) -> bool:
        """Whether one label is the answer."""
        return self.problem_type == "single_label_classification"

    @property
    def has_several(self) -> bool:
        """Whether any number of labels is."""
        return self.problem_type == "multi_label_classification"

    @property
    def is_number(self) -> bool:
        """Whether one number is."""
        return self.problem_type == "regression" and len(self.labels) == 1

    @property
    def is_by_token(self) -> bool:
        """Whether each token has an answer, not the text."""
        return self.problem_type == TAGGING

    @property
    def has_spans(self) -> bool:
        """Whether the answer to a question is a span of its context."""
        return self.problem_type == QUESTION_ANSWERING

    @property
    def has_logits_of_tokens(self) -> bool:
        """Whether each token has logits of its own."""
        return self.is_by_token or self.has_spans

    @property
    def decides(self) -> bool:
        """Whether labels are given at all: a regression gives none, and neither do spans."""
        return self.problem_type not in ("regression", QUESTION_ANSWERING)

    def threshold_of(self, asked: float | None) -> float | None:
        """The threshold of no answer that holds for a request: its own, or the model's; None of a model that always answers.

        Raises:
            InvalidInput: one is asked for of such a model, or what is no finite number.
        """
        if asked is not None and not is_finite_number(asked):
            raise InvalidInput("threshold must be a finite number", got=repr(asked), repair="use 0.0, or leave it out")
        if asked is not None and self.no_answer_threshold is None:
            raise InvalidInput(
                "threshold is of models that may give no answer",
                got=f"{asked:g} for one without no_answer_threshold in its config.json",
                repair='leave it out, or write "no_answer_threshold": 0.0 there if it learned from questions without an answer',
            )
        return self.no_answer_threshold if asked is None else asked

    def scores(self, logits: numpy.ndarray) -> numpy.ndarray:
        """Probabilities of the labels, each by itself where there may be several; or the values of a regression, `[…, C]`."""
        if not self.decides:
            return logits
        wide = logits.astype(numpy.float64)
        if self.has_several:
            probabilities: numpy.ndarray = numpy.exp(-numpy.logaddexp(0, -wide))
            return probabilities
        powers = numpy.exp(wide - wide.max(axis=-1, keepdims=True))
        probabilities = powers / powers.sum(axis=-1, keepdims=True)
        return probabilities

    def given(self, scores: numpy.ndarray) -> numpy.ndarray:
        """What is decided of texts by their scores: the number of the best label, `[n]`, or which of several labels are given, `[n, C]`.

        Raises:
            ValueError: a regression decides nothing.
        """
        if not self.decides:
            raise ValueError("a regression gives no labels")
        if self.has_several:
            reached: numpy.ndarray = scores >= numpy.asarray(self.thresholds)
            return reached
        best: numpy.ndarray = scores.argmax(axis=-1)
        return best

    @property
    def decide(self) -> Decide | None:
        """What is decided of texts by their logits; None where nothing is."""
        return (lambda logits: self.given(self.scores(logits))) if self.decides else None

    def answer(self, scores: numpy.ndarray, *, top_k: TopK = "given") -> list[LabelScore]:
        """The labels of one text with their scores, the highest first.

        Args:
            scores: `[C]`.
            top_k: `"given"` for the best label, for those of several that reach their thresholds, or for all values of a regression.
        """
        places: Sequence[int] = numpy.argsort(-scores, kind="stable").tolist()
        if top_k == "given" and self.has_several:
            reached = self.given(scores)
            places = [place for place in places if reached[place]]
        elif top_k == "given" and self.has_best:
            places = places[:1]
        elif isinstance(top_k, int):
            places = places[:top_k]
        return [{"label": self.labels[place], "score": float(scores[place])} for place in places]


@dataclass(frozen=True, kw_only=True)
class _CommonFacts:
    """What a caller may know of a model of texts, whatever it gives.

    Attributes:
        inputs: names of the tensors that it reads.
        max_length: tokens of a text that it takes, or of each of its windows.
        long: what happens to longer texts.
    """

    inputs: tuple[str, ...]
    max_length: int
    runtime: str
    long: LongTexts = CUT

    @property
    def reads_pairs(self) -> bool:
        """Whether two texts may be read together."""
        return False


@dataclass(frozen=True, kw_only=True)
class ClassifierFacts(_CommonFacts):
    """What a caller may know of a classifier of texts or of their words.

    Attributes:
        rule: how its logits become answers.
    """

    rule: AnswerRule

    @property
    def reads_pairs(self) -> bool:
        return not self.rule.is_by_token


@dataclass(frozen=True, kw_only=True)
class EncoderFacts(_CommonFacts):
    """What a caller may know of an encoder that gives vectors of texts.

    Attributes:
        dimension: numbers of a vector, H.
        prefixes: widths below it at which the first numbers of a vector are one as well, in rising order; empty of a model that was not
            trained for them.
        is_normalized: whether its vectors are of length 1.
    """

    dimension: int
    prefixes: tuple[int, ...] = ()
    is_normalized: bool = False


# Of a model of any kind.
ModelFacts = ClassifierFacts | EncoderFacts


@dataclass(frozen=True)
class AnswerSpan:
    """The best span of a question's context, and how it compares with no answer.

    Attributes:
        text: what stands there; empty where the context has no token that could be one.
        start, end: its first character in the context as it came, and the one after its last.
        score: its probability, among all spans and, of a model that may give none, no answer.
        no_answer_score: the probability of no answer; 0 of a model that always gives one.
        margin: by how much the logit of no answer exceeds the span's.
    """

    text: str
    start: int
    end: int
    score: float
    no_answer_score: float
    margin: float

    def is_given(self, threshold: float | None) -> bool:
        """Whether it is an answer: its margin is at most the threshold, or there is none to reach."""
        return bool(self.text) and (threshold is None or self.margin <= threshold)


@dataclass(frozen=True)
class TextAnswers:
    """What a model says of texts, in their order.

    Attributes:
        values: logits `[n, C]` of a classifier, fp32; of a tagger a list of `[tokens, C]`; of an encoder vectors `[n, H]`.
        tokens: how many each text was computed with, in all of its windows.
        truncated: of which texts something was left out.
        offsets: of a tagger, the characters of each text's tokens, none of special ones; empty of token ids.
        spans: of questions in words, the best span of each one's context; there are no logits then.
    """

    values: Any
    tokens: list[int]
    truncated: list[bool]
    offsets: Sequence[Sequence[Span]] = ()
    spans: Sequence[AnswerSpan] = ()
