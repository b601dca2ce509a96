"""The routes that grade: the service's own protocol and OpenRLHF's."""

import asyncio
import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response, Security
from fastapi.security import HTTPBearer

from math_reward.grader import Mode, Options, Verdict
from math_reward.http.bodies import BodyReader
from math_reward.http.metrics import Metrics
from math_reward.http.middleware.hang_up import unless_hung_up
from math_reward.http.middleware.request_throttle import RequestThrottle
from math_reward.http.ndjson import MEDIA_TYPE, PATH
from math_reward.http.openapi import json_body
from math_reward.http.recent import Recent
from math_reward.http.requests import GradeOptions, GradeRequest, RewardRequest
from math_reward.http.routes.pool_refusals import pool_refusals
from math_reward.http.schemas import GradeResponse, Problem, RewardResponse, reward_answer
from math_reward.nearest import no_such, sentence
from math_reward.pool.item import Graded, Item
from math_reward.pool.pool import Pool
from math_reward.settings import Settings

SLICE_RESULTS = 256
"""How many results are written as JSON before the event loop gets its turn."""

ACCEPT_PROMPTS = {"Accept-Prompts": "shared"}
"""Tells a client that it may send each prompt once; it cannot know this of a service that may be an older one."""
_ACCEPT_PROMPTS_DOCUMENTED = {
    "Accept-Prompts": {
        "description": "`shared`: items of a request may share `prompts`",
        "schema": {"type": "string", "enum": ["shared"]},
    }
}

_BODY_DOCUMENTED = json_body(GradeRequest)
_BODY_DOCUMENTED["requestBody"]["content"][MEDIA_TYPE] = {
    "schema": {"type": "string"},
    "example": '{"completion": "So it is 4.", "reference": "4"}\n{"completion": "5"}\n',
}
_STREAM_ANSWER_DOCUMENTED = {
    MEDIA_TYPE: {
        "schema": {"type": "string"},
        "example": '{"line": 1, "verdict": "correct", "answer": "4", "reference": "4", "reward": 1.0, '
        '"correct": true, "stage": "string", "detail": null, "span": [9, 10], "seconds": 0.0002}\n'
        '{"line": 2, "error": "Field \'reference\': field required."}\n'
        '{"end": true, "lines": 2, "verdicts": 1, "errors": 1}\n',
    }
}

PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "The body cannot be read"},
    401: {"model": Problem, "description": "No token, or a wrong one"},
    408: {"model": Problem, "description": "The body did not arrive in time"},
    413: {"model": Problem, "description": "The body is too big"},
    421: {
        "model": Problem,
        "description": "No token is set, and the Host header is not the service's",
    },
    422: {"model": Problem, "description": "The body is not JSON, does not fit the schema, or has too many items"},
    429: {
        "model": Problem,
        "description": "Too many items are waiting, or the bodies of all requests are too large together",
        "headers": {"Retry-After": {"description": "Seconds to wait", "schema": {"type": "integer"}}},
    },
    503: {
        "model": Problem,
        "description": "The service is draining, no grading process can be started, or an item could not be graded",
        "headers": {"Retry-After": {"description": "Seconds to wait", "schema": {"type": "integer"}}},
    },
}


def work_routes(settings: Settings, pool: Pool, metrics: Metrics, recent: Recent) -> APIRouter:
    """``/v1/grade`` and ``/get_reward``. They write their JSON themselves, and not through the models that document
    it: an answer may have thousands of results, and must not hold up the event loop.
    """
    defaults = Options(mode=Mode(settings.mode))
    # AuthAndLimits checks the token; this only writes it into the OpenAPI document.
    token = [Security(HTTPBearer(auto_error=False))] if settings.bearer_token else []
    router = APIRouter(dependencies=[*token, Depends(_refuse_unknown_parameters)], responses=PROBLEMS)
    grade_requests = BodyReader(GradeRequest, settings.max_items)
    reward_requests = BodyReader(RewardRequest, settings.max_items)

    answers = RequestThrottle()

    async def grade(request: Request, items: Sequence[Item]) -> list[Graded]:
        with pool_refusals(lambda: f"{pool.queued:,} items wait already and {settings.max_queued:,} may"):
            graded = await unless_hung_up(request, pool.grade(items))
        await answers.turn()
        metrics.items(graded)
        recent.add(graded)
        return graded

    @router.post(
        PATH,
        response_model=GradeResponse,
        responses={200: {"headers": _ACCEPT_PROMPTS_DOCUMENTED, "content": _STREAM_ANSWER_DOCUMENTED}},
        openapi_extra=_BODY_DOCUMENTED,
    )
    async def grade_completions(request: Request) -> Response:
        """Grades completions; the results have the order and the number of the items.

        With `Content-Type: application/x-ndjson` it grades a stream of any length: each line of the body is an item, a
        JSON object, and each line of the answer has the number of its line, `line`, with the item's result, or with an
        `error` where the line cannot be used. Answers come in order, each when it is ready: read them while you send.
        The limits on a body's size and time are then those of each line. The options are the parameters of the URL, as
        in `?mode=strict&rel_tol=0.01`, or an item's `options`.

        A whole answer has a last line with `end` and the number of lines. If the stream cannot be continued, the last
        line has an `error` and a `status`, and the connection is closed before the answer's end.
        """
        items = (await grade_requests.of_request(request)).to_grade(defaults)
        # So that sharing saves bytes and not limits: no request weighs more than one without shared prompts can.
        if sum(len(item.prompt or "") for item in items) > settings.max_body_bytes:
            raise HTTPException(
                413,
                f"The prompts of all items have more than the {settings.max_body_bytes:,} characters that are "
                "allowed: send fewer items.",
            )
        graded = await grade(request, items)
        slices = []
        for begin in range(0, len(graded), SLICE_RESULTS):
            if begin:
                await asyncio.sleep(0)
            slices.append(json.dumps([g.as_dict() for g in graded[begin : begin + SLICE_RESULTS]])[1:-1])
        return _json(f'{{"results": [{", ".join(slices)}]}}', ACCEPT_PROMPTS)

    @router.post("/get_reward", response_model=RewardResponse, openapi_extra=json_body(RewardRequest))
    async def get_reward(request: Request, on_no_judgement: _OnNoJudgement = "zero") -> Response:
        """OpenRLHF's protocol for remote rewards: cuts the prompt off each query and grades the rest."""
        graded = await grade(request, (await reward_requests.of_request(request)).to_grade(defaults))
        if on_no_judgement == "refuse":
            _refuse_what_is_no_judgement(graded)
        return _json(json.dumps(reward_answer(graded, with_judge=settings.asks_judge is not None)))

    return router


def _refuse_unknown_parameters(request: Request) -> None:
    """Raises HTTPException for an unknown parameter: otherwise a mistyped one would have no effect."""
    known = [parameter.alias for parameter in request.scope["route"].dependant.query_params]
    unknown = next((name for name in request.query_params if name not in known), None)
    if unknown in GradeOptions.__struct_fields__ and request.scope["path"] == PATH:
        raise HTTPException(422, f"Parameter {unknown!r} is for {MEDIA_TYPE}: put it into the body's 'options'.")
    if unknown is not None:
        said = no_such("parameter", unknown, known) if known else f"There is no parameter {unknown[:40]!r}"
        raise HTTPException(422, sentence(said))


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
        raise HTTPException(503, said, headers={"Retry-After": "1"})


def _json(text: str, headers: dict[str, str] | None = None) -> Response:
    return Response(text, media_type="application/json", headers=headers)
