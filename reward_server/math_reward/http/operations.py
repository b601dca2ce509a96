"""The routes for whoever runs the service: health, readiness, metrics."""

import asyncio

from fastapi import APIRouter, HTTPException, Response
from prometheus_client import CONTENT_TYPE_LATEST

from math_reward.grader import Verdict
from math_reward.http.guard import DRAINING
from math_reward.http.lifecycle import Lifecycle
from math_reward.http.metrics import Metrics
from math_reward.http.schemas import Problem
from math_reward.pool.item import Item
from math_reward.pool.lane import NoWorkers
from math_reward.pool.pool import Pool, PoolClosed
from math_reward.settings import Settings

KNOWN = [
    (Item(r"\boxed{\frac{84}{2}}", "42"), Verdict.CORRECT),
    (Item(r"\boxed{41}", "42"), Verdict.WRONG),
    (Item(r"So x is \boxed{\sqrt{8}}.", r"2\sqrt{2}"), Verdict.CORRECT),
    (Item(r"\boxed{x^2+1}", "x^2-1"), Verdict.WRONG),
    (Item(r"Example: \boxed{42}. Now I do not know", "42", r"Example: \boxed{42}. Now"), Verdict.NO_ANSWER),
    (Item(r"\boxed{42}", ""), Verdict.BAD_REFERENCE),
]
"""Known items and verdicts. They find a grader that gives everything the same verdict, or rewards the prompt."""

FRESH_SECONDS = 1.0
"""How long the result of a check is used again: anybody may ask at any rate, which must not keep the workers busy."""


class Readiness:
    """Lets the workers grade the known items, before all items that wait. Lives in one event loop.

    Args:
        pool: the pool whose workers are checked.
        limit: seconds that a check may take.
    """

    def __init__(self, pool: Pool, limit: float) -> None:
        self._pool = pool
        self._limit = limit
        self._check: asyncio.Task[str | None] | None = None
        self._stale_at = 0.0

    async def problem(self) -> str | None:
        """A sentence that says why the workers are not ready; None if they are. It may be FRESH_SECONDS old."""
        loop = asyncio.get_running_loop()
        if self._check is None or (self._check.done() and loop.time() > self._stale_at):
            self._check = loop.create_task(self._look())
        return await asyncio.shield(self._check)  # If the client hangs up, others still wait for this check.

    async def _look(self) -> str | None:
        problem = await self._problem_now()
        self._stale_at = asyncio.get_running_loop().time() + FRESH_SECONDS
        return problem

    async def _problem_now(self) -> str | None:
        items = [item for item, _ in KNOWN]
        try:
            graded = await asyncio.wait_for(self._pool.grade(items, urgent=True), timeout=self._limit)
        except asyncio.TimeoutError:
            return f"No worker graded the known answers within {self._limit:g} s."
        except (NoWorkers, PoolClosed) as error:
            return str(error)
        for (_, expected), got in zip(KNOWN, graded, strict=True):
            grade = got.grade
            if grade.verdict is not expected:
                why = f" {grade.detail}" if grade.detail else ""
                return f"A known {expected.value} answer was graded {grade.verdict.value!r}.{why}"
        return None


def operations_routes(settings: Settings, pool: Pool, metrics: Metrics, lifecycle: Lifecycle) -> APIRouter:
    """``/healthz``, ``/readyz`` and ``/metrics``, which need no token."""
    router = APIRouter()
    readiness = Readiness(pool, settings.deadline)

    @router.get("/healthz")
    async def healthz() -> dict[str, str]:
        """The process is up."""
        return {"status": "ok"}

    @router.get("/readyz", responses={503: {"model": Problem}})
    async def readyz() -> dict[str, str]:
        """The workers tell known correct answers from known wrong ones. The check overtakes the items that wait, and
        its result may be a second old.
        """
        if lifecycle.draining:
            raise HTTPException(503, DRAINING)
        problem = await readiness.problem()
        if problem is not None:
            raise HTTPException(503, problem)
        return {"status": "ok"}

    @router.get("/metrics", response_class=Response)
    async def prometheus() -> Response:
        """Metrics in Prometheus' text format."""
        return Response(metrics.exposition(), media_type=CONTENT_TYPE_LATEST)

    return router
