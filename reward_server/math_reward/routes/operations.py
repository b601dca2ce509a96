"""The routes for who runs the service: health, readiness, metrics."""

import asyncio

from fastapi import APIRouter, HTTPException, Response
from prometheus_client import CONTENT_TYPE_LATEST

from math_reward.grader import Verdict
from math_reward.guard import DRAINING
from math_reward.item import Item
from math_reward.lifecycle import Lifecycle
from math_reward.metrics import Metrics
from math_reward.pool import Pool
from math_reward.schemas import Health, Problem
from math_reward.settings import Settings
from math_reward.worker_process import GRACE_SECONDS

KNOWN = [
    (Item(r"\boxed{\frac{84}{2}}", "42"), Verdict.CORRECT),
    (Item(r"\boxed{41}", "42"), Verdict.WRONG),
    (Item(r"So x is \boxed{\sqrt{8}}.", r"2\sqrt{2}"), Verdict.CORRECT),
    (Item(r"\boxed{x^2+1}", "x^2-1"), Verdict.WRONG),
    (Item(r"Example: \boxed{42}. Now I do not know", "42", r"Example: \boxed{42}. Now"), Verdict.NO_ANSWER),
    (Item(r"\boxed{42}", ""), Verdict.BAD_REFERENCE),
]
"""What /readyz has workers grade: a grader that says the same of everything, or pays for the prompt, is found out."""


def operations_routes(settings: Settings, pool: Pool, metrics: Metrics, lifecycle: Lifecycle) -> APIRouter:
    """``/healthz``, ``/readyz`` and ``/metrics``; none needs the token."""
    router = APIRouter()

    @router.get("/healthz")
    async def healthz() -> Health:
        """The process is up."""
        return Health(status="ok")

    @router.get("/readyz", responses={503: {"model": Problem}})
    async def readyz() -> Health:
        """Workers tell known correct answers from known wrong ones. Overtakes the items that wait."""
        if lifecycle.draining:
            raise HTTPException(503, DRAINING)
        limit = settings.deadline + GRACE_SECONDS
        try:
            graded = await asyncio.wait_for(pool.grade((item for item, _ in KNOWN), first=True), timeout=limit)
        except asyncio.TimeoutError:
            raise HTTPException(503, f"No worker graded the known answers within {limit:g} s.") from None
        for (_, expected), got in zip(KNOWN, graded, strict=True):
            found = got.grade
            if found.verdict is not expected:
                why = f" {found.detail}" if found.detail else ""
                raise HTTPException(503, f"A known {expected.value} answer was graded {found.verdict.value!r}.{why}")
        return Health(status="ok")

    @router.get("/metrics", response_class=Response)
    async def prometheus() -> Response:
        """Metrics in Prometheus' text format."""
        return Response(metrics.exposition(), media_type=CONTENT_TYPE_LATEST)

    return router
