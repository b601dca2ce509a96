"""The service's page, and the routes that it uses."""

import json
from importlib import resources
from typing import Any

from fastapi import APIRouter, Request, Response, Security
from fastapi.security import HTTPBearer
from pydantic import BaseModel, Field

from math_reward.grader import Mode, Options
from math_reward.grader.verdict import Stage, Verdict
from math_reward.http.bodies import BodyReader
from math_reward.http.middleware.hang_up import unless_hung_up
from math_reward.http.openapi import json_body
from math_reward.http.recent import Recent
from math_reward.http.requests import ExplainRequest
from math_reward.http.routes.pool_refusals import pool_refusals
from math_reward.http.routes.work import PROBLEMS
from math_reward.http.schemas import GradeResult
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
    """A grade with both sides as they were parsed."""

    answer_mathml: str | None = Field(description="A `<math>` element; null where there is none to show.")
    reference_mathml: str | None = Field(description="A `<math>` element; null where there is none to show.")
    rule: str | None = Field(description="The rule that decided, in a sentence; null where no trees were compared.")
    difference_mathml: list[str] | None = Field(
        description="The first parts of the reference and the answer that differ; null where these are the whole."
    )


class RecentVerdict(BaseModel):
    """The service's verdict on one completion."""

    time: float = Field(description="Seconds since 1970, UTC.")
    verdict: Verdict
    answer: str | None
    reference: str
    stage: Stage | None
    seconds: float


class RecentResponse(BaseModel):
    """The last verdicts of this service, newest first."""

    verdicts: list[RecentVerdict]


def page_routes(settings: Settings, explainer: Pool, recent: Recent) -> APIRouter:
    """``/`` and its files, ``/v1/explain`` and ``/v1/recent``.

    ``explainer`` is a second pool, whose grader is ``math_reward.page.explain.explain``: so people who use the page
    and trainers do not wait for each other.
    """
    defaults = Options(mode=Mode(settings.mode))
    token = [Security(HTTPBearer(auto_error=False))] if settings.bearer_token else []
    router = APIRouter()
    requests = BodyReader(ExplainRequest)
    for path, (name, media_type) in _FILES.items():
        _add_file(router, path, name, media_type)

    @router.post(
        "/v1/explain",
        response_model=ExplainResponse,
        dependencies=token,
        responses=PROBLEMS,
        openapi_extra=json_body(ExplainRequest),
    )
    async def explain(request: Request) -> Response:
        """Grades one completion and shows both sides as they were parsed."""
        item = (await requests.of_request(request)).item(defaults)
        with pool_refusals(lambda: f"{explainer.queued:,} items wait already"):
            (graded,) = await unless_hung_up(request, explainer.grade([item]))
        recent.add([graded])
        # If its worker was killed, there is a grade without an explanation.
        explained = {name: getattr(graded.grade, name, None) for name in ExplainResponse.__annotations__}
        return _json({**graded.as_dict(), **explained})

    @router.get("/v1/recent", response_model=RecentResponse, dependencies=token, responses=_RECENT_PROBLEMS)
    async def recent_verdicts() -> Response:
        """The service's last verdicts, newest first, whoever asked for them."""
        return _json({"verdicts": recent.newest_first()})

    return router


_RECENT_PROBLEMS: dict[int | str, dict[str, Any]] = {
    code: problem for code, problem in PROBLEMS.items() if code in (401, 421, 503)
}


def _add_file(router: APIRouter, path: str, name: str, media_type: str) -> None:
    content = resources.files("math_reward").joinpath("page", "static", name).read_bytes()

    @router.get(path, include_in_schema=False)
    async def file() -> Response:
        return Response(content, media_type=media_type, headers=_HEADERS)


def _json(content: object) -> Response:
    return Response(json.dumps(content), media_type="application/json", headers={"Cache-Control": "no-store"})
