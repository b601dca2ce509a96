"""The endpoints that grade: the service's own protocol and OpenRLHF's."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Annotated, Any, Literal, TypeVar

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from math_reward.grader import Mode, Options, Verdict
from math_reward.http.bodies import BodyReader, encode
from math_reward.http.guard import BODY, STOPPED
from math_reward.http.metrics import Metrics
from math_reward.http.openapi import json_body
from math_reward.http.problems import HUNG_UP, Refused, documented
from math_reward.http.requests import GradeRequest, RewardRequest
from math_reward.http.routes import Endpoint, Endpoints
from math_reward.http.schemas import GradeResponse, RewardResponse, result_of, reward_answer
from math_reward.pool.item import Graded, Item
from math_reward.pool.lane import NoWorkers
from math_reward.pool.pool import Pool, PoolClosed, QueueFull
from math_reward.settings import Settings

RETRY = {"Retry-After": "1"}
"""For what may succeed soon. Who asks again doubles the pause."""

ACCEPT_PROMPTS = {"Accept-Prompts": "shared"}
"""Tells a client that it may send each prompt once; it cannot know this of a service that may be an older one."""

PROBLEMS = documented(
    s401="No token, or a wrong one",
    s408="The body did not arrive in time",
    s413="The body is too big",
    s415="The body is not sent as JSON",
    s422="The body does not fit the schema, or has too many items",
    s429="Too many items or bytes are under way; see Retry-After",
    s503="The service stops, or nothing can be graded; see Retry-After",
)

_Model = TypeVar("_Model", bound=Any)
_T = TypeVar("_T")


def work_endpoints(settings: Settings, pool: Pool, metrics: Metrics) -> Endpoints:
    """``/v1/grade`` and ``/get_reward``. They write their JSON themselves, and not through the models that document
    it: an answer may have thousands of results.
    """
    defaults = Options(mode=Mode(settings.mode))
    grade_requests = BodyReader(GradeRequest, settings.max_items)
    reward_requests = BodyReader(RewardRequest, settings.max_items)

    async def grade(request: Request, items: Sequence[Item]) -> list[Graded]:
        graded = await graded_by(pool, request, items)
        metrics.items(graded)
        return graded

    async def grade_completions(request: Request) -> Response:
        """Grades completions; the results have the order and the number of the items."""
        items = body_of(request, grade_requests).to_grade(defaults)
        # So that sharing saves bytes and not limits: no request weighs more than one without shared prompts can.
        if sum(len(item.prompt or "") for item in items) > settings.max_body_bytes:
            raise Refused(
                413,
                f"The prompts of all items have more than the {settings.max_body_bytes:,} characters that are "
                "allowed: send fewer items.",
            )
        graded = await grade(request, items)
        return json_answer({"results": list(map(result_of, graded))}, ACCEPT_PROMPTS)

    async def get_reward(request: Request, on_no_judgement: _OnNoJudgement = "zero") -> Response:
        """OpenRLHF's protocol for remote rewards: cuts the prompt off each query and grades the rest."""
        if on_no_judgement not in ("zero", "refuse"):
            raise Refused(422, "The parameter 'on_no_judgement' is 'zero' or 'refuse'.")
        graded = await grade(request, body_of(request, reward_requests).to_grade(defaults))
        if on_no_judgement == "refuse":
            _refuse_what_is_no_judgement(graded)
        return json_answer(reward_answer(graded))

    of_grades = {"response_model": GradeResponse, "responses": PROBLEMS, **json_body(GradeRequest)}
    of_rewards = {"response_model": RewardResponse, "responses": PROBLEMS, **json_body(RewardRequest)}
    return {
        "/v1/grade": Endpoint(grade_completions, (), of_grades),
        "/get_reward": Endpoint(get_reward, ("on_no_judgement",), of_rewards),
    }


def body_of(request: Request, reader: BodyReader[_Model]) -> _Model:
    """The body of a request, as the struct that ``reader`` decodes. Raises Unusable."""
    return reader.read(request.scope[BODY], request.headers.get("content-type", "").encode("latin-1"))


def json_answer(content: Any, headers: dict[str, str] | None = None) -> Response:
    return Response(encode(content), media_type="application/json", headers=headers)


async def graded_by(pool: Pool, request: Request, items: Sequence[Item]) -> list[Graded]:
    """The grades of a request's items.

    Raises:
        Refused: 429 for a full queue; 503 where the pool is closed or cannot start a worker; 499, which only the
            metrics and the access log show, for a client that has hung up.
    """
    try:
        return await _unless_hung_up(request, pool.grade(items))
    except QueueFull:
        raise Refused(429, f"{pool.queued:,} items wait already: try again in 1 s.", RETRY) from None
    except NoWorkers as error:
        raise Refused(503, str(error), RETRY) from None
    except PoolClosed:
        raise Refused(503, STOPPED, RETRY) from None


async def _unless_hung_up(request: Request, work: Coroutine[Any, Any, _T]) -> _T:
    """Awaits ``work``, and cancels it if the client closes the connection meanwhile. The body has been read."""
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(request.receive())
    watching.add_done_callback(lambda _: working.cancel())
    try:
        return await working
    except asyncio.CancelledError:
        if watching.done() and not watching.cancelled():
            raise Refused(HUNG_UP, "The client has hung up.") from None
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
    """Raises Refused for the first verdict that does not judge the answer."""
    for index, one in enumerate(graded):
        verdict = Verdict(one.verdict)
        if verdict.is_judgement:
            continue
        said = f"Item {index}: {one.detail}"
        if verdict is Verdict.BAD_REFERENCE:
            raise Refused(422, said)
        raise Refused(503, said, RETRY)
