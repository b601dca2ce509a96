"""The requests in the OpenAPI document: the structs that read the bodies describe them. FastAPI writes the rest."""

import functools
from typing import Any

import msgspec
from fastapi import FastAPI, Security
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.security import HTTPBearer
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from math_reward.http.bodies import encode
from math_reward.http.problems import Problem
from math_reward.http.requests import GradeItem, GradeRequest, RewardRequest
from math_reward.http.routes import TABLE, Endpoint, Endpoints

EXAMPLES: dict[type[Struct], Any] = {
    GradeRequest: {
        "items": [
            {"completion": r"Half of it, so \boxed{\frac{1}{2}}.", "reference": "0.5"},
            {"completion": r"Q: 1+1? A: \boxed{3}", "reference": ["2", "two"], "prompt": "Q: 1+1? A:"},
        ],
        "options": {"mode": "strict"},
    },
    RewardRequest: {"query": [r"Q: 1+1? A: \boxed{2}"], "prompts": ["Q: 1+1? A:"], "labels": ["2"]},
    GradeItem: {"completion": r"Half of it, so \boxed{\frac{1}{2}}.", "reference": "0.5"},
}
"""A request of each kind."""

_PLACE = "#/components/schemas/{name}"


def json_body(model: type[Struct]) -> dict[str, Any]:
    """What the document says of a body that the endpoint decodes itself."""
    content = {"application/json": {"schema": {"$ref": _PLACE.format(name=model.__name__)}}}
    return {"openapi_extra": {"requestBody": {"required": True, "content": content}}}


def document(app: FastAPI, endpoints: Endpoints, with_token: bool) -> None:
    """Tells the application, which documents them, of the endpoints in TABLE."""
    token = [Security(HTTPBearer(auto_error=False))] if with_token else []
    for route in TABLE:
        endpoint = endpoints.get(route.path)
        if endpoint is not None and endpoint.documentation is not None:
            app.add_api_route(
                route.path,
                endpoint.call,
                methods=[route.method],
                summary=route.text,
                dependencies=token if route.token else [],
                **endpoint.documentation,
            )


def document_endpoints(app: FastAPI, with_page: bool) -> Endpoints:
    """``/openapi.json`` and, ``with_page``, ``/docs``."""

    @functools.cache  # anybody may ask for it
    def written() -> bytes:
        made = app.openapi()
        made["components"]["schemas"] |= schemas()
        return encode(made)

    async def openapi(_: Request) -> Response:
        return Response(written(), media_type="application/json")

    async def docs(_: Request) -> Response:
        return get_swagger_ui_html(openapi_url="/openapi.json", title=app.title)

    return {"/openapi.json": Endpoint(openapi)} | ({"/docs": Endpoint(docs)} if with_page else {})


def schemas() -> dict[str, Any]:
    """The JSON schemas of all requests and their parts, and of a refusal, by name."""
    _, components = msgspec.json.schema_components(EXAMPLES, ref_template=_PLACE)
    for model, example in EXAMPLES.items():
        components[model.__name__]["examples"] = [example]
    return components | {Problem.__name__: Problem.model_json_schema()}
