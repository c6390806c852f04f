"""The HTTP application: `/classify`, the Open Inference Protocol under `/v2`, `/metrics`, and the OpenAPI page at `/docs`."""

import asyncio
import logging
from collections.abc import Awaitable
from typing import Annotated, Any

from fastapi import FastAPI, Header, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from hf_albert_plus._version import __version__

from . import inference_protocol as protocol
from .answers import Answers
from .catalogue import Catalogue
from .errors import DeadlineExceeded, Failed, NotFinite, NotReady, RequestError, TooLarge
from .guard import Gate, Guard
from .measures import Measures
from .openapi import BYTES, INFER_BODY, describe
from .schemas import ClassifyRequest, ClassifyResponse, ErrorResponse, predictions_of
from .settings import ServeSettings

_LOG = logging.getLogger("hf_albert_plus.serving")
_NAME = "hf-albert-plus"
_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorResponse} for status in (400, 401, 404, 405, 408, 413, 422, 429, 500, 503, 504)
}


def build_app(catalogue: Catalogue, settings: ServeSettings, gate: Gate) -> FastAPI:
    """The application over some models.

    Args:
        catalogue: read anew by every request.
        gate: who may come in; it says whether requests are still taken.
    """
    app = FastAPI(
        title=_NAME,
        version=__version__,
        description="Text classification: a text, a pair or a list of them in, labels with their scores out.",
        responses=_ERRORS,
    )
    measures = Measures(in_flight=lambda: gate.in_flight, refused=lambda: catalogue.refused)

    def over(scope: Any, status: int, seconds: float) -> None:
        measures.over(getattr(scope.get("route"), "path", "none"), status, seconds)

    app.add_middleware(
        Guard, gate=gate, max_body=settings.max_body, body_s=settings.body_timeout, refuse=_refused, answered=over
    )
    _add_error_handlers(app)

    async def in_time(answer: Awaitable[Answers], *, name: str, version: int) -> Answers:
        try:
            found = await asyncio.wait_for(answer, settings.deadline_s)
        except asyncio.TimeoutError:
            raise DeadlineExceeded(f"no answer within {settings.deadline_s:g} s", retry_after_s=1) from None
        except NotFinite:
            measures.not_finite.labels(name, version).inc()
            raise
        measures.answered(found, model=name, version=version)
        return found

    @app.post("/classify", summary="Classify texts", tags=["classify"], response_model=ClassifyResponse)
    async def classify(request: ClassifyRequest) -> Response:
        name, version, model = catalogue.find(request.model, request.version)
        texts = request.texts()
        if len(texts) > settings.max_items:
            raise TooLarge(f"inputs has {len(texts)} texts; a request may have {settings.max_items}")
        truncate = settings.truncate if request.truncate is None else request.truncate
        answers = await in_time(model.classify(texts, truncate=truncate), name=name, version=version)
        predictions = predictions_of(answers, model.facts)
        response = ClassifyResponse.model_construct(model=name, version=str(version), predictions=predictions)
        # Written at once: FastAPI would check what was just made, for as long as a text takes a small model.
        return Response(response.model_dump_json(), media_type="application/json")

    @app.get("/v2", summary="Server metadata", tags=["open inference protocol"])
    async def server_metadata() -> dict[str, Any]:
        return {"name": _NAME, "version": __version__, "extensions": ["binary_tensor_data"]}

    @app.get("/v2/health/live", summary="Whether it runs", tags=["open inference protocol"])
    async def live() -> dict[str, bool]:
        return {"live": True}

    @app.get("/v2/health/ready", summary="Whether it takes requests", tags=["open inference protocol"])
    async def ready() -> Response:
        is_ready = bool(catalogue.models) and not gate.is_draining
        return JSONResponse({"ready": is_ready}, status_code=200 if is_ready else 503)

    @app.get("/v2/models/{name}", summary="Model metadata", tags=["open inference protocol"])
    @app.get("/v2/models/{name}/versions/{version}", summary="Version metadata", tags=["open inference protocol"])
    async def model_metadata(name: str, version: str | None = None) -> dict[str, Any]:
        found, _, model = catalogue.find(name, version)
        refused = catalogue.refused.get(found, {})
        return protocol.metadata_of(model.facts, name=found, versions=list(catalogue.models[found]), refused=refused)

    @app.get("/v2/models/{name}/ready", summary="Whether a model is ready", tags=["open inference protocol"])
    @app.get(
        "/v2/models/{name}/versions/{version}/ready",
        summary="Whether a version is ready",
        tags=["open inference protocol"],
    )
    async def model_ready(name: str, version: str | None = None) -> Response:
        try:
            found, _, _ = catalogue.find(name, version)
        except NotReady as error:
            return JSONResponse({"name": name, "ready": False, "error": error.message}, status_code=error.status)
        return JSONResponse({"name": found, "ready": True})

    @app.post(
        "/v2/models/{name}/infer",
        summary="Infer",
        tags=["open inference protocol"],
        responses={200: {"content": BYTES}},
        openapi_extra=INFER_BODY,
    )
    @app.post(
        "/v2/models/{name}/versions/{version}/infer",
        summary="Infer with a version",
        tags=["open inference protocol"],
        responses={200: {"content": BYTES}},
        openapi_extra=INFER_BODY,
    )
    async def infer(
        request: Request,
        name: str,
        version: str | None = None,
        header_length: Annotated[int | None, Header(alias=protocol.HEADER_LENGTH, ge=0)] = None,
    ) -> Response:
        found, number, model = catalogue.find(name, version)
        asked, tensors = protocol.read_request(await request.body(), header_length, model.facts)
        protocol.check_items(tensors, most=settings.max_items)
        texts = protocol.texts_of(tensors)
        truncate = settings.truncate if asked.parameters.truncate is None else asked.parameters.truncate
        call: Awaitable[Answers] = model.infer(tensors) if texts is None else model.classify(texts, truncate=truncate)
        answers = await in_time(call, name=found, version=number)
        content, headers = protocol.write_response(answers, model.facts, asked, name=found, version=number)
        return Response(content, headers=headers)

    @app.get(
        "/metrics",
        summary="Metrics for Prometheus",
        tags=["operation"],
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    async def metrics() -> Response:
        return Response(measures.text(), media_type="text/plain; version=0.0.4")

    describe(app, gate, max_items=settings.max_items)
    return app


def _add_error_handlers(app: FastAPI) -> None:
    @app.exception_handler(RequestError)
    async def refused(request: Request, error: RequestError) -> Response:
        if isinstance(error, Failed):
            _LOG.error("%s %s failed: %s", request.method, request.url.path, error.why)
        return _refused(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        problems = error.errors()
        if problems[0]["type"] == "json_invalid":
            message = f"the body must be JSON: {problems[0]['ctx']['error']} at character {problems[0]['loc'][-1]}"
            return JSONResponse({"error": message}, status_code=400)
        return JSONResponse({"error": protocol.first_problem(problems)}, status_code=422)

    @app.exception_handler(HTTPException)
    async def http_error(_: Request, error: HTTPException) -> Response:
        return JSONResponse({"error": str(error.detail)}, status_code=error.status_code, headers=error.headers)

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> Response:
        _LOG.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return JSONResponse({"error": "the server failed at this; its log says why"}, status_code=500)


def _refused(error: RequestError) -> Response:
    headers = {}
    if error.retry_after_s is not None:
        headers["retry-after"] = str(max(1, round(error.retry_after_s)))
    if error.status == 401:
        headers["www-authenticate"] = "Bearer"
    return JSONResponse({"error": error.message}, status_code=error.status, headers=headers)


__all__ = ["build_app"]
