"""The OpenAPI description: what FastAPI reads off the routes, and what it cannot see there."""

from typing import Any

from fastapi import FastAPI

from .guard import OPEN, Gate
from .inference_protocol import InferRequest
from .schemas import ClassifyRequest

_REFERENCE = "#/components/schemas/{model}"
BYTES: dict[str, Any] = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
# A body that the application reads by itself, as it may be JSON with bytes behind it.
INFER_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": _REFERENCE.format(model=InferRequest.__name__)}}, **BYTES},
    }
}


def describe(app: FastAPI, gate: Gate, *, max_items: int) -> None:
    """Has an application describe the schemas of bodies that it reads by itself, how many texts a request may have, and the token where
    one is asked for."""
    of_routes = app.openapi

    def openapi() -> dict[str, Any]:
        found = of_routes()
        components = found["components"]
        schema = InferRequest.model_json_schema(ref_template=_REFERENCE)
        components["schemas"].update(schema.pop("$defs", {}), **{InferRequest.__name__: schema})
        for form in components["schemas"][ClassifyRequest.__name__]["properties"]["inputs"]["anyOf"]:
            if form.get("type") == "array":
                form["maxItems"] = max_items
        if gate.token is not None:
            components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            found["security"] = [{"token": []}]
            for path in OPEN:
                found["paths"][path]["get"]["security"] = []
        return found

    app.openapi = openapi  # type: ignore[method-assign]


__all__ = ["BYTES", "INFER_BODY", "describe"]
