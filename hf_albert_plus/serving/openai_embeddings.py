"""`POST /v1/embeddings`: vectors of texts in the form of OpenAI's API, which its clients and many programs speak."""

import base64
from typing import Annotated, Any, Literal

import numpy
import orjson
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field, field_validator

from .answer_kinds import facts_of_vectors
from .embed import FORMS, vectors_of, width_of
from .json_problems import read_body
from .plain_routes import ByItself
from .request_fields import Dimensions, ModelName, Truncate
from .service import Service


class EmbeddingsRequest(BaseModel):
    """A text or a list of texts, as OpenAI's API takes them; `truncate` is our own addition."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"examples": [{"input": ["a film to see twice", "no"]}]}
    )
    input: str | Annotated[list[str], Field(min_length=1)]
    model: ModelName = None
    encoding_format: Literal["float", "base64"] = Field(
        default="float", description="`base64` is that of the numbers as little-endian float32."
    )
    dimensions: Dimensions = None
    user: str | None = Field(default=None, description="Passed over.")
    truncate: Truncate = None

    @field_validator("input", mode="before")
    @classmethod
    def _refuse_tokens(cls, given: Any) -> Any:
        """Token ids are another tokenizer's where a client has none for this model, and nothing in them tells."""
        first = given[0] if isinstance(given, list) and given else None
        first = first[0] if isinstance(first, list) and first else first
        if isinstance(first, int) and not isinstance(first, bool):
            raise ValueError(
                "token ids are not taken here, as they may be those of another tokenizer: send texts, or the ids of this model's own tokenizer as "
                "input_ids to /v2/models/NAME/infer"
            )
        return given

    def texts(self) -> list[str]:
        return self.input if isinstance(self.input, list) else [self.input]


class Embedding(BaseModel):
    """The vector of one text, as numbers or as base64."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class Usage(BaseModel):
    """The tokens of all texts, those that begin and end a text among them."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsResponse(BaseModel):
    """The vectors, in the order of the texts."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: Usage


def openai_routes(service: Service) -> list[ByItself]:
    """`/v1/embeddings`, over the models of a server."""

    async def embeddings(request: Request) -> Response:
        asked = read_body(EmbeddingsRequest, await request.body(), forms=FORMS)
        chosen = service.catalogue.find(asked.model)
        facts = facts_of_vectors(chosen)
        width = width_of(facts, asked.dimensions, name=chosen.name)
        answers = await service.answer(asked.texts(), chosen, truncate=asked.truncate)
        in_base64 = asked.encoding_format == "base64"
        data = [
            {"object": "embedding", "index": index, "embedding": _base64(vector) if in_base64 else vector}
            for index, vector in enumerate(vectors_of(answers, facts, width=width))
        ]
        tokens = sum(answers.tokens)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        content = {"object": "list", "data": data, "model": chosen.name, "usage": usage}
        return Response(orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY), media_type="application/json")

    return [ByItself("/v1/embeddings", embeddings, methods=["POST"])]


def described_router() -> APIRouter:
    """`/v1/embeddings` as the page at `/docs` shows it."""
    router = APIRouter(tags=["embed"])

    @router.post("/v1/embeddings", summary="Vectors of texts in the form of OpenAI's API")
    async def embeddings(request: EmbeddingsRequest) -> EmbeddingsResponse:
        raise NotImplementedError

    return router


def _base64(vector: numpy.ndarray) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()
