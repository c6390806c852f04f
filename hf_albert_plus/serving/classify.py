"""`POST /classify`: what it takes and gives, and its route."""

from collections.abc import Callable
from typing import Annotated, Any

import numpy
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from ..engines.text_answers import AnswerRule, LabelScore, Text, TextAnswers
from .answer_kinds import rule_at
from .json_problems import read_body
from .plain_routes import ByItself
from .request_fields import ModelName, Truncate, Version
from .service import Service, predicted


class Pair(BaseModel):
    """Two texts that are read together."""

    model_config = ConfigDict(extra="forbid", strict=True)
    text: str
    text_pair: str | None = None


Input = str | Pair


class ClassifyRequest(BaseModel):
    """A text, a pair, or a list of them."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"inputs": ["a film to see twice", {"text": "a", "text_pair": "b"}]}]},
    )
    inputs: str | Pair | Annotated[list[Input], Field(min_length=1)]
    model: ModelName = None
    version: Version = None
    truncate: Truncate = None

    top_k: int | None = Field(
        default=None,
        ge=1,
        description="How many labels `scores` has, the highest first. Default: all, in the model's order.",
    )

    def texts(self) -> list[Text]:
        given = self.inputs if isinstance(self.inputs, list) else [self.inputs]
        return [_text(one) for one in given]


class Prediction(BaseModel):
    """What a model says of one text.

    `scores` has a number for each label. What else there is depends on the model's `problem_type`, which `/v2/models/NAME` says:

    - `single_label_classification`: `label` and `score` are the best label and its probability.
    - `multi_label_classification`: `labels` has every label whose probability reaches its threshold, the highest first, or none; there
      is no best one, and `label` and `score` are null.
    - `regression`: `score` is the number itself, in its own units and no probability, and `label` its name. Of several numbers `scores`
      has them all, and both are null.
    """

    label: str | None
    score: float | None
    labels: list[LabelScore] = Field(
        default=[], description="The labels that are given, of a `multi_label_classification` alone."
    )
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


def predictions_of(answers: TextAnswers, rule: AnswerRule, *, top_k: int | None = None) -> list[dict[str, Any]]:
    """The labels of every text with their scores, each with the fields of a `Prediction`; what is unset is another kind of model's.

    Args:
        top_k: how many labels `scores` has, the highest first; None for all in the model's order.
    """
    scores = rule.scores(answers.values)
    answered = _answerer(rule, scores)
    predictions = []
    for place, (tokens, truncated) in enumerate(zip(answers.tokens, answers.truncated, strict=True)):
        row = scores[place]
        if top_k is None:
            said = dict(zip(rule.labels, row.tolist(), strict=True))
        else:
            said = {each["label"]: each["score"] for each in rule.answer(row, top_k=top_k)}
        predictions.append({**answered(place), "scores": said, "tokens": tokens, "truncated": truncated})
    return predictions


def _answerer(rule: AnswerRule, scores: numpy.ndarray) -> Callable[[int], dict[str, Any]]:
    """What a prediction has beside its scores, by the place of its text."""
    if rule.has_several:
        return lambda place: {"label": None, "score": None, "labels": rule.answer(scores[place])}
    if not rule.has_best and not rule.is_number:
        return lambda place: {"label": None, "score": None}
    # Of one number its name and value: it is the best of one.
    best = scores.argmax(axis=-1)
    return lambda place: {"label": rule.labels[best[place]], "score": float(scores[place][best[place]])}


def classify_routes(service: Service) -> list[ByItself]:
    """`/classify`, over the models of a server."""

    async def classify(request: Request) -> Response:
        asked = read_body(ClassifyRequest, await request.body())
        chosen = service.catalogue.find(asked.model, asked.version)
        rule = rule_at("/classify", chosen)
        answers = await service.answer(asked.texts(), chosen, truncate=asked.truncate)
        return predicted(predictions_of(answers, rule, top_k=asked.top_k), chosen)

    return [ByItself("/classify", classify, methods=["POST"])]


def described_router() -> APIRouter:
    """`/classify` as the page at `/docs` shows it."""
    router = APIRouter(tags=["classify"])

    @router.post("/classify", summary="Classify texts")
    async def classify(request: ClassifyRequest) -> ClassifyResponse:
        raise NotImplementedError

    return router


def _text(given: Input) -> Text:
    if isinstance(given, str):
        return given
    return given.text if given.text_pair is None else (given.text, given.text_pair)
