"""The requests in the OpenAPI document: the structs that read the bodies describe them. FastAPI writes the rest."""

from typing import Any

import msgspec
from fastapi import FastAPI
from msgspec import Struct

from math_reward.http.requests import GradeItem, GradeRequest, RewardRequest

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


class DocumentedService(FastAPI):
    """A FastAPI application whose document has the structs of ``EXAMPLES`` too."""

    def openapi(self) -> dict[str, Any]:
        """The document; FastAPI keeps it."""
        if self.openapi_schema is None:
            super().openapi()["components"]["schemas"] |= schemas()
        return super().openapi()


def json_body(model: type[Struct]) -> dict[str, Any]:
    """A route's ``openapi_extra``, for a body that the route decodes itself."""
    schema = {"$ref": _PLACE.format(name=model.__name__)}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def schemas() -> dict[str, Any]:
    """The JSON schemas of all requests and their parts, by name."""
    _, components = msgspec.json.schema_components(EXAMPLES, ref_template=_PLACE)
    for model, example in EXAMPLES.items():
        components[model.__name__]["examples"] = [example]
    return components
