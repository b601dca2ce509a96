"""The service as an ASGI application: its parts, put together."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError

from math_reward import __version__
from math_reward.http.invalid_request import invalid_parameter, unusable
from math_reward.http.lifecycle import Lifecycle
from math_reward.http.metrics import Metrics
from math_reward.http.middleware.access_log import AccessLog
from math_reward.http.middleware.auth_and_limits import AuthAndLimits
from math_reward.http.middleware.telemetry import Telemetry
from math_reward.http.openapi import DocumentedService
from math_reward.http.recent import Recent
from math_reward.http.requests import Unusable
from math_reward.http.routes.operations import operations_routes
from math_reward.http.routes.page import page_routes
from math_reward.http.routes.stream import stream_route
from math_reward.http.routes.work import work_routes
from math_reward.page.explain import explain
from math_reward.pool.pool import Pool
from math_reward.settings import Settings
from math_reward.tokens import Tokens

EXPLAINER_QUEUE = 64
"""Items that may wait for an explanation; people send these one at a time."""


def create_app(settings: Settings, lifecycle: Lifecycle | None = None, tokens: Tokens | None = None) -> FastAPI:
    """The service as an ASGI application. Its worker processes start and end with its lifespan.

    The caller drains the service through ``lifecycle``, changes the tokens through ``tokens``, and notes on
    ``app.state.metrics`` which files it has read.
    """
    lifecycle = lifecycle or Lifecycle()
    tokens = tokens or Tokens(settings.tokens)
    new_pool: Callable[..., Pool] = Pool
    if settings.asks_judge is not None:
        from math_reward.judge.judged_pool import JudgedPool  # It needs httpx.

        new_pool = JudgedPool.asking(settings.asks_judge)
    pool = new_pool(settings.workers, settings.deadline, max_queued=settings.max_queued)
    explainer = new_pool(1, settings.deadline, grader=explain, max_queued=EXPLAINER_QUEUE)
    lifecycle.give_up = pool.refuse
    metrics = Metrics(pool, lifecycle)
    recent = Recent()
    access_log = AccessLog() if settings.access_log else None

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        with ExitStack() as stack:
            if access_log:
                stack.enter_context(access_log)
            async with pool, explainer:
                reading = asyncio.create_task(metrics.keep_pool_read())
                yield
                reading.cancel()

    app = DocumentedService(
        title="math-reward",
        version=__version__,
        description="Grades math completions against reference answers.",
        lifespan=lifespan,
        # Both pages load scripts from another site, which could then read the token that our page keeps.
        docs_url=None,
        redoc_url=None,
    )
    app.state.metrics = metrics
    # The middleware that is added last sees a request first.
    app.add_middleware(AuthAndLimits, settings=settings, lifecycle=lifecycle, tokens=tokens)
    app.add_middleware(Telemetry, metrics=metrics, access_log=access_log)
    app.add_exception_handler(Unusable, unusable)
    app.add_exception_handler(RequestValidationError, invalid_parameter)
    app.router.routes.append(stream_route(settings, pool, metrics, recent))
    app.include_router(work_routes(settings, pool, metrics, recent))
    app.include_router(operations_routes(settings, pool, metrics, lifecycle))
    app.include_router(page_routes(settings, explainer, recent))
    return app
