"""`POST /embed`: what it takes and gives, and its route."""

from typing import Annotated, Any

import numpy
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from ..engines.text_answers import EncoderFacts, TextAnswers
from ..engines.vector_prefixes import cut_vectors
from .answer_kinds import facts_of_vectors
from .json_problems import read_body
from .plain_routes import ByItself
from .refusals import Unusable
from .request_fields import Dimensions, ModelName, Truncate, Version
from .service import Service, predicted

FORMS = "a text or a list of texts"


class EmbedRequest(BaseModel):
    """A text or a list of texts."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"examples": [{"inputs": ["a film to see twice", "no"]}]}
    )
    inputs: str | Annotated[list[str], Field(min_length=1)]
    model: ModelName = None
    version: Version = None
    truncate: Truncate = None
    dimensions: Dimensions = None

    def texts(self) -> list[str]:
        return self.inputs if isinstance(self.inputs, list) else [self.inputs]


class Vector(BaseModel):
    """The vector of one text."""

    vector: list[float]
    tokens: int
    truncated: bool


class EmbedResponse(BaseModel):
    """The vectors, in the order of the inputs."""

    model: str
    version: str
    predictions: list[Vector]


def width_of(facts: EncoderFacts, dimensions: int | None, *, name: str) -> int:
    """Numbers of the vectors that a request asks for.

    Raises:
        Unusable: neither the model's own nor one of its prefixes.
    """
    if dimensions in (None, facts.dimension):
        return facts.dimension
    if dimensions in facts.prefixes:
        return dimensions
    has = f"{name} has vectors of {facts.dimension} numbers"
    if not facts.prefixes:
        raise Unusable(f"dimensions: {has}, and was not trained for shorter ones: leave it out")
    raise Unusable(f"dimensions: {has} and prefixes of {', '.join(map(str, facts.prefixes))}: use one of these")


def vectors_of(answers: TextAnswers, facts: EncoderFacts, *, width: int) -> list[numpy.ndarray]:
    """The vector of each text, `[width]` in fp32."""
    return list(cut_vectors(answers.values, width=width, is_normalized=facts.is_normalized))


def embed_routes(service: Service) -> list[ByItself]:
    """`/embed`, over the models of a server."""

    async def embed(request: Request) -> Response:
        asked = read_body(EmbedRequest, await request.body(), forms=FORMS)
        chosen = service.catalogue.find(asked.model, asked.version)
        facts = facts_of_vectors(chosen)
        width = width_of(facts, asked.dimensions, name=chosen.name)
        answers = await service.answer(asked.texts(), chosen, truncate=asked.truncate)
        of_texts = zip(vectors_of(answers, facts, width=width), answers.tokens, answers.truncated, strict=True)
        predictions: list[dict[str, Any]] = [
            {"vector": vector, "tokens": tokens, "truncated": truncated} for vector, tokens, truncated in of_texts
        ]
        return predicted(predictions, chosen)

    return [ByItself("/embed", embed, methods=["POST"])]


def described_router() -> APIRouter:
    """`/embed` as the page at `/docs` shows it."""
    router = APIRouter(tags=["embed"])

    @router.post("/embed", summary="Vectors of texts")
    async def embed(request: EmbedRequest) -> EmbedResponse:
        raise NotImplementedError

    return router
