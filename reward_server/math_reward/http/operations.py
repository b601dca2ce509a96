"""The routes for whoever runs the service: health, readiness, metrics."""

from fastapi import APIRouter, HTTPException, Response
from prometheus_client import CONTENT_TYPE_LATEST

from math_reward.http.guard import DRAINING
from math_reward.http.lifecycle import Lifecycle
from math_reward.http.metrics import Metrics
from math_reward.http.readiness import Readiness
from math_reward.http.schemas import Health, Problem
from math_reward.pool.pool import Pool
from math_reward.pool.worker_process import GRACE_SECONDS
from math_reward.settings import Settings


def operations_routes(settings: Settings, pool: Pool, metrics: Metrics, lifecycle: Lifecycle) -> APIRouter:
    """``/healthz``, ``/readyz`` and ``/metrics``, which need no token."""
    router = APIRouter()
    readiness = Readiness(pool, settings.deadline + GRACE_SECONDS)

    @router.get("/healthz")
    async def healthz() -> Health:
        """The process is up."""
        return Health(status="ok")

    @router.get("/readyz", responses={503: {"model": Problem}})
    async def readyz() -> Health:
        """The workers tell known correct answers from known wrong ones. The check overtakes the items that wait, and
        its result may be a second old.
        """
        if lifecycle.draining:
            raise HTTPException(503, DRAINING)
        problem = await readiness.problem()
        if problem is not None:
            raise HTTPException(503, problem)
        return Health(status="ok")

    @router.get("/metrics", response_class=Response)
    async def prometheus() -> Response:
        """Metrics in Prometheus' text format."""
        return Response(metrics.exposition(), media_type=CONTENT_TYPE_LATEST)

    return router
