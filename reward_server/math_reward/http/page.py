"""The service's page, and the route that it uses."""

from importlib import resources

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from math_reward.grader import Mode, Options
from math_reward.http.bodies import BodyReader
from math_reward.http.openapi import json_body
from math_reward.http.requests import GradeItem
from math_reward.http.routes import Endpoint, Endpoints
from math_reward.http.schemas import GradeResult, result_of
from math_reward.http.work import PROBLEMS, body_of, graded_by, json_answer
from math_reward.pool.pool import Pool
from math_reward.settings import Settings

_FILES = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
}

# The page needs only its own files: no other site, no script or style inside the HTML, no frame around it.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


class ExplainResponse(GradeResult):
    """A grade and the reason for it."""

    rule: str | None = Field(description="The rule that decided, in a sentence; null where no trees were compared.")


def page_endpoints(settings: Settings, explainer: Pool) -> Endpoints:
    """``/`` and its files, and ``/v1/explain``.

    ``explainer`` is a second pool, whose grader is ``math_reward.page.explain.explain``: so people who use the page
    and trainers do not wait for each other.
    """
    defaults = Options(mode=Mode(settings.mode))
    requests = BodyReader(GradeItem)

    async def explain(request: Request) -> Response:
        """Grades one completion and says which rule decided."""
        item = body_of(request, requests).item(defaults)
        (graded,) = await graded_by(explainer, request, [item])
        return json_answer({**result_of(graded), "rule": graded.rule}, {"Cache-Control": "no-store"})

    documentation = {"response_model": ExplainResponse, "responses": PROBLEMS, **json_body(GradeItem)}
    return {
        "/v1/explain": Endpoint(explain, (), documentation),
        **{path: _file(name, media_type) for path, (name, media_type) in _FILES.items()},
    }


def _file(name: str, media_type: str) -> Endpoint:
    content = resources.files("math_reward").joinpath("page", "static", name).read_bytes()

    async def file(_: Request) -> Response:
        return Response(content, media_type=media_type, headers=_HEADERS)

    return Endpoint(file)
