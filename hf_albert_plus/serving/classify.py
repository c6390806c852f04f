"""`POST /classify`: what it takes and gives, and its route."""

from typing import Annotated

import numpy
from fastapi import APIRouter, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from ..engines.text_answers import ClassifierFacts, Text, TextAnswers, scores_of
from .refusals import TooLarge
from .service import Service


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


def predictions_of(answers: TextAnswers, facts: ClassifierFacts) -> list[Prediction]:
    """The labels of every text with their scores."""
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


def classify_router(service: Service) -> APIRouter:
    """`/classify`, over the models of a server."""
    router = APIRouter(tags=["classify"])

    @router.post("/classify", summary="Classify texts", response_model=ClassifyResponse)
    async def classify(request: ClassifyRequest) -> Response:
        chosen = service.catalogue.find(request.model, request.version)
        texts = request.texts()
        most = service.settings.max_items
        if len(texts) > most:
            raise TooLarge(f"inputs has {len(texts)} texts; a request may have {most}")
        call = chosen.model.classify(texts, truncate=service.truncates(request.truncate))
        predictions = predictions_of(await service.in_time(call, chosen), chosen.model.facts)
        response = ClassifyResponse.model_construct(
            model=chosen.name, version=str(chosen.version), predictions=predictions
        )
        # Written at once: FastAPI would check what was just made, for as long as a text takes a small model.
        return Response(response.model_dump_json(), media_type="application/json")

    return router


def _text(given: Input) -> Text:
    if isinstance(given, str):
        return given
    return given.text if given.text_pair is None else (given.text, given.text_pair)
