"""The HTTP application: its routes put together, how errors are answered, and the OpenAPI page at `/docs`."""

import logging
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from .._version import __version__
from . import answer, classify, embed, inference_routes, openai_embeddings, tag
from .answer import AnswerRequest
from .catalogue import Catalogue
from .classify import ClassifyRequest, ErrorResponse
from .embed import EmbedRequest
from .gate import Gate
from .guard import OPEN, Guard
from .inference_protocol import InferRequest
from .openai_embeddings import EmbeddingsRequest
from .refusals import Failed, RequestError
from .service import NAME, Measures, Service
from .settings import ServeSettings
from .tag import TagRequest

# What has the texts of a request.
_LISTS = {
    ClassifyRequest: "inputs",
    TagRequest: "inputs",
    AnswerRequest: "inputs",
    EmbedRequest: "inputs",
    EmbeddingsRequest: "input",
}
_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorResponse} for status in (400, 401, 404, 405, 408, 413, 422, 429, 500, 503, 504)
}


def describe(app: FastAPI, gate: Gate, *, max_items: int) -> None:
    """Adds to an application's description the schemas of bodies that it reads by itself, how many texts a request may have, and the
    token where one is asked for."""
    read_by_themselves = FastAPI(responses=_ERRORS)
    for described in (classify, tag, answer, embed, openai_embeddings, inference_routes):
        read_by_themselves.include_router(described.described_router())
    routes = [*read_by_themselves.routes, *app.routes]

    def openapi() -> dict[str, Any]:
        description = get_openapi(title=app.title, version=app.version, description=app.description, routes=routes)
        components = description["components"]
        schema = InferRequest.model_json_schema(ref_template=inference_routes.REFERENCE)
        components["schemas"].update(schema.pop("$defs", {}), **{InferRequest.__name__: schema})
        for request, field in _LISTS.items():
            for form in components["schemas"][request.__name__]["properties"][field]["anyOf"]:
                if form.get("type") == "array":
                    form["maxItems"] = max_items
        if gate.token is not None:
            components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            description["security"] = [{"token": []}]
            for path in OPEN:
                description["paths"][path]["get"]["security"] = []
        return description

    app.openapi = openapi  # type: ignore[method-assign]


def server_router(service: Service) -> APIRouter:
    """`/v2` and the health of the server, as the Open Inference Protocol wants them."""
    router = APIRouter(tags=["open inference protocol"])

    @router.get("/v2", summary="Server metadata")
    async def server_metadata() -> dict[str, Any]:
        return {"name": NAME, "version": __version__, "extensions": ["binary_tensor_data"]}

    @router.get("/v2/health/live", summary="Whether it runs")
    async def live() -> dict[str, bool]:
        return {"live": True}

    @router.get("/v2/health/ready", summary="Whether it takes requests")
    async def ready() -> Response:
        is_ready = bool(service.catalogue.models) and not service.gate.is_draining
        return JSONResponse({"ready": is_ready}, status_code=200 if is_ready else 503)

    return router


def metrics_router(service: Service) -> APIRouter:
    """`/metrics`, which Prometheus reads."""
    router = APIRouter(tags=["operation"])

    @router.get(
        "/metrics",
        summary="Metrics for Prometheus",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    async def metrics() -> Response:
        return Response(service.measures.text(), media_type="text/plain; version=0.0.4")

    return router


def page_router() -> APIRouter:
    """`/`, where one types a text and sees what a model says."""
    router = APIRouter()
    page = (Path(__file__).parent / "page.html").read_text(encoding="utf-8")
    # It loads nothing, and nothing else may show it as its own.
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:; frame-ancestors 'none'"

    @router.get("/", include_in_schema=False)
    async def typed() -> Response:
        return HTMLResponse(page, headers={"content-security-policy": policy})

    return router


_LOG = logging.getLogger("hf_albert_plus.serving")


def refusal(error: RequestError) -> Response:
    """The answer to a request that is refused."""
    headers = {}
    if error.retry_after_s is not None:
        headers["retry-after"] = str(max(1, round(error.retry_after_s)))
    if error.status == 401:
        headers["www-authenticate"] = "Bearer"
    return JSONResponse({"error": error.message}, status_code=error.status, headers=headers)


def add_error_handlers(app: FastAPI) -> None:
    """Has an application answer errors so."""

    @app.exception_handler(RequestError)
    async def refused(request: Request, error: RequestError) -> Response:
        if isinstance(error, Failed):
            _LOG.error("%s %s failed: %s", request.method, request.url.path, error.why)
        return refusal(error)

    @app.exception_handler(ClientDisconnect)
    async def left(_: Request, __: ClientDisconnect) -> Response:
        """Nobody reads it; it is counted."""
        return Response(status_code=400)

    @app.exception_handler(HTTPException)
    async def http_error(_: Request, error: HTTPException) -> Response:
        return JSONResponse({"error": str(error.detail)}, status_code=error.status_code, headers=error.headers)

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> Response:
        _LOG.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return JSONResponse({"error": "the server failed at this; its log says why"}, status_code=500)


def build_app(catalogue: Catalogue, settings: ServeSettings, gate: Gate) -> FastAPI:
    """The application over some models.

    Args:
        catalogue: read anew by every request.
        gate: who may come in; it says whether requests are still taken.
    """
    app = FastAPI(
        title=NAME,
        version=__version__,
        description="Text classification: a text, a pair or a list of them in, labels with their scores out; of a tagger, tags of its words; of a model of spans, answers to questions; of an encoder, vectors.",
        responses=_ERRORS,
    )
    measures = Measures(in_flight=lambda: gate.in_flight, refused=lambda: catalogue.refused)

    def over(scope: Any, status: int, seconds: float) -> None:
        measures.over(getattr(scope.get("route"), "path", "none"), status, seconds)

    app.add_middleware(
        Guard, gate=gate, max_body=settings.max_body, body_s=settings.body_timeout, refuse=refusal, answered=over
    )
    add_error_handlers(app)
    service = Service(catalogue=catalogue, settings=settings, gate=gate, measures=measures)
    # Looked at first: almost every request is one of theirs.
    app.router.routes[:0] = [
        *classify.classify_routes(service),
        *tag.tag_routes(service),
        *answer.answer_routes(service),
        *embed.embed_routes(service),
        *openai_embeddings.openai_routes(service),
        *inference_routes.inference_routes(service),
    ]
    for make_router in (server_router, inference_routes.inference_router, metrics_router):
        app.include_router(make_router(service))
    app.include_router(page_router())
    describe(app, gate, max_items=settings.max_items)
    return app
