"""The endpoints for whoever runs the service: health, readiness, metrics."""

import asyncio

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response

from math_reward.grader import Verdict
from math_reward.http.guard import DRAINING
from math_reward.http.lifecycle import Lifecycle
from math_reward.http.metrics import Metrics
from math_reward.http.problems import Refused, documented
from math_reward.http.routes import Endpoint, Endpoints
from math_reward.pool.item import Item
from math_reward.pool.lane import NoWorkers
from math_reward.pool.pool import Pool, PoolClosed

KNOWN = [
    (Item(r"\boxed{\frac{84}{2}}", "42"), Verdict.CORRECT),
    (Item(r"\boxed{41}", "42"), Verdict.WRONG),
    (Item(r"So x is \boxed{\sqrt{8}}.", r"2\sqrt{2}"), Verdict.CORRECT),
    (Item(r"\boxed{x^2+1}", "x^2-1"), Verdict.WRONG),
    (Item(r"Example: \boxed{42}. Now I do not know", "42", r"Example: \boxed{42}. Now"), Verdict.NO_ANSWER),
    (Item(r"\boxed{42}", ""), Verdict.BAD_REFERENCE),
]
"""Known items and verdicts. They find a grader that gives everything the same verdict, or rewards the prompt."""

CHECK_SECONDS = 5.0
"""How long a check may take: workers may be busy, and clients of a check seldom wait longer."""

FRESH_SECONDS = 1.0
"""How long the result of a check is used again: anybody may ask at any rate, which must not keep the workers busy."""


class Readiness:
    """Lets the workers grade the known items, before all items that wait. Lives in one event loop.

    Args:
        pool: the pool whose workers are checked.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
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
            graded = await asyncio.wait_for(self._pool.grade(items, urgent=True), timeout=CHECK_SECONDS)
        except asyncio.TimeoutError:
            return self._pool.problem() or f"No worker graded the known answers within {CHECK_SECONDS:g} s."
        except (NoWorkers, PoolClosed) as error:
            return str(error)
        for (_, expected), got in zip(KNOWN, graded, strict=True):
            if got.verdict != expected.value:
                why = f" {got.detail}" if got.detail else ""
                return f"A known {expected.value} answer was graded {got.verdict!r}.{why}"
        return self._pool.problem()


def operations_endpoints(pool: Pool, metrics: Metrics, lifecycle: Lifecycle) -> Endpoints:
    """``/healthz``, ``/readyz`` and ``/metrics``."""
    readiness = Readiness(pool)

    async def healthz(_: Request) -> Response:
        """The process is up."""
        return _OK

    async def readyz(_: Request) -> Response:
        """The workers tell known correct answers from known wrong ones, and no lane is without one. The check
        overtakes the items that wait, and its result may be a second old.
        """
        problem = DRAINING if lifecycle.draining else await readiness.problem()
        if problem is not None:
            raise Refused(503, problem)
        return _OK

    async def prometheus(_: Request) -> Response:
        """Metrics in Prometheus' text format."""
        return Response(metrics.exposition(), media_type=CONTENT_TYPE_LATEST)

    ok = {"response_model": dict[str, str]}
    return {
        "/healthz": Endpoint(healthz, documentation=ok),
        "/readyz": Endpoint(readyz, documentation={**ok, "responses": documented(s503="It is not ready")}),
        "/metrics": Endpoint(prometheus, documentation={"response_class": Response}),
    }


_OK = Response(b'{"status":"ok"}', media_type="application/json")
