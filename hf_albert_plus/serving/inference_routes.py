"""The routes of the Open Inference Protocol over models: what a model takes and gives, whether it is ready, and inference."""

from collections.abc import Awaitable, Mapping
from typing import Annotated, Any

import numpy
from fastapi import APIRouter, Header, Request, Response
from fastapi.responses import JSONResponse

from ..engines.text_answers import TextAnswers
from . import inference_protocol as protocol
from .catalogue import AskableModel
from .inference_outputs import metadata_of
from .inference_protocol import InferRequest
from .plain_routes import ByItself
from .refusals import NotReady, Unusable
from .service import Service

# Of a number of bytes that a body could have.
_DIGITS = 18
REFERENCE = "#/components/schemas/{model}"


def inference_router(service: Service) -> APIRouter:
    """`/v2/models/{name}` with its versions: metadata and readiness."""
    router = APIRouter(tags=["open inference protocol"])
    catalogue = service.catalogue

    @router.get("/v2/models/{name}", summary="Model metadata")
    @router.get("/v2/models/{name}/versions/{version}", summary="Version metadata")
    async def model_metadata(name: str, version: str | None = None) -> dict[str, Any]:
        chosen = catalogue.find(name, version)
        return metadata_of(
            chosen.model.facts,
            name=chosen.name,
            versions=list(catalogue.models[chosen.name]),
            refused=catalogue.refused.get(chosen.name, {}),
        )

    @router.get("/v2/models/{name}/ready", summary="Whether a model is ready")
    @router.get("/v2/models/{name}/versions/{version}/ready", summary="Whether a version is ready")
    async def model_ready(name: str, version: str | None = None) -> Response:
        try:
            chosen = catalogue.find(name, version)
        except NotReady as error:
            return JSONResponse({"name": name, "ready": False, "error": error.message}, status_code=error.status)
        return JSONResponse({"name": chosen.name, "ready": True})

    return router


def inference_routes(service: Service) -> list[ByItself]:
    """Inference over the models of a server: bodies may be JSON with bytes behind it."""
    catalogue = service.catalogue

    async def infer(request: Request) -> Response:
        # The version that is there when the body is: one that was chosen before might be gone by then.
        body = await request.body()
        chosen = catalogue.find(request.path_params["name"], request.path_params.get("version"))
        header_length = _header_length(request.headers.get(protocol.HEADER_LENGTH))
        asked, tensors = protocol.read_request(body, header_length, chosen.model.facts)
        protocol.check_items(tensors, most=service.settings.max_items)
        answers = await service.in_time(_ask(chosen.model, asked, tensors, service), chosen)
        content, headers = protocol.write_response(
            answers, chosen.model.facts, asked, name=chosen.name, version=chosen.version
        )
        return Response(content, headers=headers)

    paths = ("/v2/models/{name}/infer", "/v2/models/{name}/versions/{version}/infer")
    return [ByItself(path, infer, methods=["POST"]) for path in paths]


def described_router() -> APIRouter:
    """Inference as the page at `/docs` shows it."""
    router = APIRouter(tags=["open inference protocol"])
    body: dict[str, Any] = {"responses": {200: {"content": BYTES}}, "openapi_extra": INFER_BODY}
    length = Annotated[int | None, Header(alias=protocol.HEADER_LENGTH, ge=0)]

    @router.post("/v2/models/{name}/infer", summary="Infer", **body)
    async def infer(name: str, header_length: length = None) -> None:
        raise NotImplementedError

    @router.post("/v2/models/{name}/versions/{version}/infer", summary="Infer with a version", **body)
    async def infer_with_version(name: str, version: str, header_length: length = None) -> None:
        raise NotImplementedError

    return router


def _header_length(said: str | None) -> int | None:
    """
    Raises:
        Unusable: no number of bytes.
    """
    if said is None:
        return None
    if not said.isascii() or not said.isdigit() or len(said) > _DIGITS:
        raise Unusable(f"{protocol.HEADER_LENGTH} must be a number of bytes of the body")
    return int(said)


def _ask(
    model: AskableModel, asked: protocol.InferRequest, tensors: Mapping[str, numpy.ndarray], service: Service
) -> Awaitable[TextAnswers]:
    """The call of a model with the texts or the token ids of a request."""
    texts = protocol.texts_of(tensors)
    if texts is None:
        return model.infer(tensors)
    return model.answer(texts, truncate=service.truncates(asked.parameters.truncate))


BYTES: dict[str, Any] = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}


INFER_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": REFERENCE.format(model=InferRequest.__name__)}}, **BYTES},
    }
}
