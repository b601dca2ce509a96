"""The routes that grade: the service's own protocol and OpenRLHF's."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, HTTPException, Query, Request, Response, Security
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer

from math_reward.grader import Mode, Options, Verdict
from math_reward.http.bodies import BodyReader, encode
from math_reward.http.guard import BODY, STOPPED
from math_reward.http.metrics import Metrics
from math_reward.http.openapi import json_body
from math_reward.http.requests import GradeRequest, RewardRequest
from math_reward.http.schemas import GradeResponse, Problem, RewardResponse, reward_answer
from math_reward.pool.item import Graded, Item
from math_reward.pool.lane import NoWorkers
from math_reward.pool.pool import Pool, PoolClosed, QueueFull
from math_reward.settings import Settings

RETRY = {"Retry-After": "1"}
"""For what may succeed soon. Who asks again doubles the pause."""

ACCEPT_PROMPTS = {"Accept-Prompts": "shared"}
"""Tells a client that it may send each prompt once; it cannot know this of a service that may be an older one."""

PROBLEMS: dict[int | str, dict[str, Any]] = {
    401: {"model": Problem, "description": "No token, or a wrong one"},
    408: {"model": Problem, "description": "The body did not arrive in time"},
    413: {"model": Problem, "description": "The body is too big"},
    422: {"model": Problem, "description": "The body is not JSON, does not fit the schema, or has too many items"},
    429: {"model": Problem, "description": "Too many items or bytes are under way; see Retry-After"},
    503: {"model": Problem, "description": "The service stops, or nothing can be graded; see Retry-After"},
}

_Model = TypeVar("_Model", bound=Any)
_T = TypeVar("_T")


def work_routes(settings: Settings, pool: Pool, metrics: Metrics) -> APIRouter:
    """``/v1/grade`` and ``/get_reward``. They write their JSON themselves, and not through the models that document
    it: an answer may have thousands of results.
    """
    defaults = Options(mode=Mode(settings.mode))
    router = APIRouter(dependencies=token_documented(settings), responses=PROBLEMS, route_class=PlainRoute)
    grade_requests = BodyReader(GradeRequest, settings.max_items)
    reward_requests = BodyReader(RewardRequest, settings.max_items)

    async def grade(request: Request, items: Sequence[Item]) -> list[Graded]:
        graded = await graded_by(pool, request, items)
        metrics.items(graded)
        return graded

    @router.post("/v1/grade", response_model=GradeResponse, openapi_extra=json_body(GradeRequest))
    async def grade_completions(request: Request) -> Response:
        """Grades completions; the results have the order and the number of the items."""
        items = body_of(request, grade_requests).to_grade(defaults)
        # So that sharing saves bytes and not limits: no request weighs more than one without shared prompts can.
        if sum(len(item.prompt or "") for item in items) > settings.max_body_bytes:
            raise HTTPException(
                413,
                f"The prompts of all items have more than the {settings.max_body_bytes:,} characters that are "
                "allowed: send fewer items.",
            )
        graded = await grade(request, items)
        return json_answer({"results": [one.as_dict() for one in graded]}, ACCEPT_PROMPTS)

    @router.post("/get_reward", response_model=RewardResponse, openapi_extra=json_body(RewardRequest))
    async def get_reward(request: Request, on_no_judgement: _OnNoJudgement = "zero") -> Response:
        """OpenRLHF's protocol for remote rewards: cuts the prompt off each query and grades the rest."""
        if on_no_judgement not in ("zero", "refuse"):
            raise HTTPException(422, "The parameter 'on_no_judgement' is 'zero' or 'refuse'.")
        graded = await grade(request, body_of(request, reward_requests).to_grade(defaults))
        if on_no_judgement == "refuse":
            _refuse_what_is_no_judgement(graded)
        return json_answer(reward_answer(graded))

    return router


class PlainRoute(APIRoute):
    """A route whose parameters FastAPI documents and does not read, which would cost a post a fifth of its CPU time.
    An unknown one is refused: otherwise a mistyped one would have no effect.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        known = [parameter.alias for parameter in self.dependant.query_params]

        async def handle(request: Request) -> Response:
            for name in request.query_params:
                if name not in known:
                    has = " and ".join(known) or "none"
                    raise HTTPException(422, f"There is no parameter {name[:40]!r}: the route has {has}.")
            answer: Response = await self.endpoint(request, **request.query_params)
            return answer

        return handle


def token_documented(settings: Settings) -> list[Any]:
    """Writes the token into the OpenAPI document of a route; the guard checks it."""
    return [Security(HTTPBearer(auto_error=False))] if settings.tokens else []


def body_of(request: Request, reader: BodyReader[_Model]) -> _Model:
    """The body of a request, as the struct that ``reader`` decodes. Raises Unusable."""
    return reader.read(request.scope[BODY], request.headers.get("content-type", "").encode("latin-1"))


def json_answer(content: Any, headers: dict[str, str] | None = None) -> Response:
    return Response(encode(content), media_type="application/json", headers=headers)


async def graded_by(pool: Pool, request: Request, items: Sequence[Item]) -> list[Graded]:
    """The grades of a request's items.

    Raises:
        HTTPException: 429 for a full queue; 503 where the pool is closed or cannot start a worker; 499, which only the
            metrics and the access log show, for a client that has hung up.
    """
    try:
        return await _unless_hung_up(request, pool.grade(items))
    except QueueFull:
        raise HTTPException(429, f"{pool.queued:,} items wait already: try again in 1 s.", RETRY) from None
    except NoWorkers as error:
        raise HTTPException(503, str(error), RETRY) from None
    except PoolClosed:
        raise HTTPException(503, STOPPED, RETRY) from None


async def _unless_hung_up(request: Request, work: Coroutine[Any, Any, _T]) -> _T:
    """Awaits ``work``, and cancels it if the client closes the connection meanwhile. The body has been read."""
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(request.receive())
    watching.add_done_callback(lambda _: working.cancel())
    try:
        return await working
    except asyncio.CancelledError:
        if watching.done() and not watching.cancelled():
            raise HTTPException(499, "The client has hung up.") from None
        working.cancel()
        raise
    finally:
        watching.cancel()


_OnNoJudgement = Annotated[
    Literal["zero", "refuse"],
    Query(
        description="What to answer for a verdict that does not judge the answer. `zero`: the reward 0, with the "
        "verdict in `extra_logs`. `refuse`: no rewards, but status 503 with Retry-After for `error`, which may "
        "succeed later, and 422 for `bad_reference`, which will not."
    ),
]


def _refuse_what_is_no_judgement(graded: list[Graded]) -> None:
    """Raises HTTPException for the first verdict that does not judge the answer."""
    for index, one in enumerate(graded):
        if one.grade.verdict.is_judgement:
            continue
        said = f"Item {index}: {one.grade.detail}"
        if one.grade.verdict is Verdict.BAD_REFERENCE:
            raise HTTPException(422, said)
        raise HTTPException(503, said, RETRY)
