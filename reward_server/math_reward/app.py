"""The service as an ASGI application: its parts, put together."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from math_reward import __version__
from math_reward.http.guard import Guard
from math_reward.http.lifecycle import Lifecycle
from math_reward.http.log import Log
from math_reward.http.metrics import Metrics
from math_reward.http.openapi import document, document_endpoints
from math_reward.http.operations import operations_endpoints
from math_reward.http.page import page_endpoints
from math_reward.http.work import work_endpoints
from math_reward.page.explain import explain
from math_reward.pool.pool import Pool
from math_reward.settings import Settings

EXPLAINER_QUEUE = 64
"""Items that may wait for an explanation; people send these one at a time."""


class Service(FastAPI):
    """Its guard answers every request. FastAPI writes the document of the routes, and starts and ends the workers."""

    guard: Guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await super().__call__(scope, receive, send)
        else:
            await self.guard(scope, receive, send)


def create_app(settings: Settings, lifecycle: Lifecycle | None = None, log: Log | None = None) -> Service:
    """The service as an ASGI application. Its worker processes start and end with its lifespan.

    The caller drains the service through ``lifecycle``, and has the log of its other libraries in ``log``.
    """
    lifecycle, log = lifecycle or Lifecycle(), log or Log()
    pool = Pool(settings.workers, settings.deadline, max_queued=settings.max_queued)
    explainer = Pool(1, settings.deadline, grader=explain, max_queued=EXPLAINER_QUEUE, at_once=False)
    metrics = Metrics(pool, lifecycle, log)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await anyio.sleep(0)  # imports anyio's event loop, which a first request without descriptors could not
        async with pool, explainer:
            yield

    app = Service(
        title="math-reward",
        version=__version__,
        description="Grades math completions against reference answers.",
        lifespan=lifespan,
    )
    endpoints = {
        **work_endpoints(settings, pool, metrics),
        **operations_endpoints(pool, metrics, lifecycle),
        **page_endpoints(settings, explainer),
        # FastAPI's page loads scripts from another site, which could read the token that somebody enters there.
        **document_endpoints(app, with_page=not settings.tokens),
    }
    document(app, endpoints, with_token=bool(settings.tokens))
    app.guard = Guard(endpoints, settings, lifecycle, metrics, log)
    return app
