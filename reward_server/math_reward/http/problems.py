"""Refusals, as RFC 9457 has them."""

from http import HTTPStatus
from typing import Any

from pydantic import BaseModel, Field
from starlette.responses import Response

from math_reward.http.bodies import encode

PROBLEM_JSON = "application/problem+json"

HUNG_UP = 499
"""For the metrics and the access log alone: the client has hung up. nginx has it too."""


class Problem(BaseModel):
    """Why a request was refused (RFC 9457, problem details)."""

    type: str = Field(examples=["about:blank"])
    title: str = Field(description="The status in words.", examples=["Unprocessable Entity"])
    status: int = Field(examples=[422])
    detail: str = Field(examples=["The body cannot be used: Expected `str`, got `int` - at `$.items[3].completion`."])


class Refused(Exception):
    """A request is refused.

    Args:
        status: of the answer.
        detail: a sentence that says why, and what would help.
        headers: of the answer.
    """

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, headers

    def answer(self) -> Response:
        """As the client gets it."""
        title = "Client Closed Request" if self.status == HUNG_UP else HTTPStatus(self.status).phrase
        content = {"type": "about:blank", "title": title, "status": self.status, "detail": self.detail}
        return Response(encode(content), self.status, self.headers, media_type=PROBLEM_JSON)


def documented(**descriptions: str) -> dict[int | str, dict[str, Any]]:
    """Refusals of a route in the OpenAPI document: ``s401="No token"``."""
    content = {PROBLEM_JSON: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {name.removeprefix("s"): {"description": text, "content": content} for name, text in descriptions.items()}
