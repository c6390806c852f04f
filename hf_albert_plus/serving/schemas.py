"""`POST /classify`: what it takes and gives."""

from typing import Annotated

import numpy
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from .answers import Answers, Facts, Text, scores_of


def _encodable(text: str) -> str:
    """JSON may hold half of a surrogate pair, which is no character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("a text must be made of characters, and this one has half of a surrogate pair") from None
    return text


Words = Annotated[str, AfterValidator(_encodable)]


class Pair(BaseModel):
    """Two texts that are read together."""

    model_config = ConfigDict(extra="forbid", strict=True)
    text: Words
    text_pair: Words | None = None


Input = Words | Pair


class ClassifyRequest(BaseModel):
    """A text, a pair, or a list of them."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"inputs": ["a film to see twice", {"text": "a", "text_pair": "b"}]}]},
    )
    inputs: Words | Pair | Annotated[list[Input], Field(min_length=1)]
    model: str | None = Field(default=None, description="Needed where several are served.")
    version: str | None = Field(default=None, description="The highest by default.", max_length=20)
    truncate: bool | None = Field(
        default=None, description="Cut texts that are too long instead of refusing them. Default: the server's own."
    )

    def texts(self) -> list[Text]:
        given = self.inputs if isinstance(self.inputs, list) else [self.inputs]
        return [_text(one) for one in given]


class Prediction(BaseModel):
    """What a model says of one text.

    `scores` has a number for each label, which for a regression is its value. `label` and `score` are the best of them; for several
    labels at a time, and for a regression, there is no best one.
    """

    label: str | None
    score: float | None
    scores: dict[str, float]
    tokens: int
    truncated: bool


class ClassifyResponse(BaseModel):
    """The predictions, in the order of the inputs."""

    model: str
    version: str
    predictions: list[Prediction]


class ErrorResponse(BaseModel):
    """What was wrong, and what would be right."""

    error: str


def predictions_of(answers: Answers, facts: Facts) -> list[Prediction]:
    """Of every text, its labels with their scores."""
    scores = scores_of(answers.logits, facts.problem_type)
    has_best = facts.problem_type.startswith("single")
    best = numpy.argmax(scores, axis=-1)
    return [
        Prediction.model_construct(
            label=facts.labels[place] if has_best else None,
            score=float(row[place]) if has_best else None,
            scores=dict(zip(facts.labels, row.tolist(), strict=True)),
            tokens=tokens,
            truncated=truncated,
        )
        for row, place, tokens, truncated in zip(scores, best, answers.tokens, answers.truncated, strict=True)
    ]


def _text(given: Input) -> Text:
    if isinstance(given, str):
        return given
    return given.text if given.text_pair is None else (given.text, given.text_pair)


__all__ = ["ClassifyRequest", "ClassifyResponse", "ErrorResponse", "Prediction", "predictions_of"]
