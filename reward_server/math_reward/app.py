"""The routes of the service, and nothing else."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, HTTPException, Security
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer

from math_reward import __version__
from math_reward.errors import invalid_request
from math_reward.grader import Verdict
from math_reward.guard import Guard
from math_reward.schemas import (
    GradeRequest,
    GradeResponse,
    GradeResult,
    Health,
    Problem,
    RewardRequest,
    RewardResponse,
)
from math_reward.settings import Settings
from math_reward.workers import GRACE_SECONDS, Graded, Item, WorkerPool

# What /readyz has a worker grade: with one of each a grader that says the same of everything is found out.
KNOWN = {Verdict.CORRECT: Item(r"\boxed{\frac{84}{2}}", "42"), Verdict.WRONG: Item(r"\boxed{41}", "42")}


def create_app(settings: Settings) -> FastAPI:
    """The service as an ASGI application. Its worker processes start and end with its lifespan."""
    pool = WorkerPool(settings.workers, settings.deadline)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        with pool:
            yield

    app = FastAPI(
        title="math-reward",
        version=__version__,
        description="Grades math completions against reference answers.",
        lifespan=lifespan,
    )
    app.add_middleware(Guard, token=settings.bearer_token, max_body_bytes=settings.max_body_bytes)
    app.add_exception_handler(RequestValidationError, invalid_request)
    # The guard asks for the token; this writes it into the OpenAPI document.
    token = [Security(HTTPBearer(auto_error=False))] if settings.bearer_token else []
    problems: dict[int | str, dict[str, Any]] = {code: {"model": Problem} for code in (401, 413, 422)}

    async def grade(items: list[Item]) -> list[Graded]:
        if len(items) > settings.max_items:
            raise HTTPException(
                422,
                f"The request has {len(items):,} items and {settings.max_items:,} are allowed: send several requests.",
            )
        return await pool.grade(items)

    @app.post("/v1/grade", dependencies=token, responses=problems)
    async def grade_completions(request: GradeRequest) -> GradeResponse:
        """Grades completions; the results have the order and the number of the items."""
        graded = await grade([item.item() for item in request.items])
        return GradeResponse(results=[GradeResult.of(g) for g in graded])

    @app.post("/get_reward", dependencies=token, responses=problems)
    async def get_reward(request: RewardRequest) -> RewardResponse:
        """OpenRLHF's protocol for remote rewards: the prompt is cut off each query, the rest is graded."""
        return RewardResponse.of(await grade(request.items()))

    @app.get("/healthz")
    async def healthz() -> Health:
        """The process is up."""
        return Health(status="ok")

    @app.get("/readyz", responses={503: {"model": Problem}})
    async def readyz() -> Health:
        """A worker tells a known correct answer from a known wrong one. Overtakes the items that wait."""
        limit = settings.deadline + GRACE_SECONDS
        try:
            graded = await asyncio.wait_for(pool.grade(KNOWN.values(), first=True), timeout=limit)
        except asyncio.TimeoutError:
            raise HTTPException(503, f"No worker graded the two known answers within {limit:g} s.") from None
        for expected, got in zip(KNOWN, graded, strict=True):
            found = got.grade
            if found.verdict is not expected:
                why = f" {found.detail}" if found.detail else ""
                raise HTTPException(503, f"A known {expected.value} answer was graded {found.verdict.value!r}.{why}")
        return Health(status="ok")

    return app
