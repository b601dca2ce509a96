"""The service as an ASGI application: its parts, put together."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from math_reward import __version__
from math_reward.http.guard import Guard
from math_reward.http.lifecycle import Lifecycle
from math_reward.http.metrics import Metrics
from math_reward.http.openapi import DocumentedService
from math_reward.http.operations import operations_routes
from math_reward.http.page import page_routes
from math_reward.http.requests import Unusable
from math_reward.http.work import work_routes
from math_reward.page.explain import explain
from math_reward.pool.pool import Pool
from math_reward.settings import Settings

EXPLAINER_QUEUE = 64
"""Items that may wait for an explanation; people send these one at a time."""


def create_app(settings: Settings, lifecycle: Lifecycle | None = None) -> FastAPI:
    """The service as an ASGI application. Its worker processes start and end with its lifespan.

    The caller drains the service through ``lifecycle``.
    """
    lifecycle = lifecycle or Lifecycle()
    pool = Pool(settings.workers, settings.deadline, max_queued=settings.max_queued)
    explainer = Pool(1, settings.deadline, grader=explain, max_queued=EXPLAINER_QUEUE)
    metrics = Metrics(pool, lifecycle)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with pool, explainer:
            yield

    app = DocumentedService(
        title="math-reward",
        version=__version__,
        description="Grades math completions against reference answers.",
        lifespan=lifespan,
        # FastAPI's page loads scripts from another site, which could read the token that somebody enters there.
        docs_url=None if settings.tokens else "/docs",
        redoc_url=None,
    )
    app.add_middleware(Guard, settings=settings, lifecycle=lifecycle, metrics=metrics)
    app.add_exception_handler(Unusable, _unusable)
    app.include_router(work_routes(settings, pool, metrics))
    app.include_router(operations_routes(settings, pool, metrics, lifecycle))
    app.include_router(page_routes(settings, explainer))
    return app


async def _unusable(_: Request, error: Exception) -> JSONResponse:
    """``Unusable`` has the sentence."""
    return JSONResponse({"detail": str(error)}, status_code=422)
