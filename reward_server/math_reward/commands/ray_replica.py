"""The service as an application of Ray Serve: what runs in each replica, a process of its own on some node.

The application always has the path "/": AuthAndLimits knows the service's paths, and a prefix would change them.
"""

import asyncio
import sys
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI
from ray import serve
from ray.serve.config import AutoscalingConfig
from ray.serve.schema import LoggingConfig
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from math_reward.app import create_app
from math_reward.http.lifecycle import Lifecycle
from math_reward.settings import Settings

APPLICATION = "math-reward"
"""The application's name in Serve; a cluster has one."""

MAX_ONGOING_REQUESTS = 2048
"""How many requests a replica takes at once. It has a queue of its own and says when that is full."""

UPSCALE_SECONDS = 5.0
"""How long the load must be high before more replicas start: a step asks for all its rewards at once."""

ANSWER_SECONDS = 1.0
"""How long requests that were refused at the end have for their answer."""


@dataclass(frozen=True)
class Scale:
    """How many replicas there may be, and how many requests under way Serve aims at for each."""

    min_replicas: int
    max_replicas: int
    ongoing_requests: float


class Replica:
    """The application and its pool of workers."""

    lifecycle = Lifecycle()
    """The lifecycle of this process, which runs one replica."""

    def __init__(self, drain_seconds: float) -> None:
        self._drain_seconds = drain_seconds
        self._drain_until: float | None = None

    async def drain(self) -> tuple[str, int, float]:
        """Takes no new requests from now on. May be called again.

        Returns: the replica's id, its requests under way, and the seconds that these have left.
        """
        loop = asyncio.get_running_loop()
        if self._drain_until is None:
            self._drain_until = loop.time() + self._drain_seconds
            self.lifecycle.draining = True
            loop.call_at(self._drain_until, self.lifecycle.give_up)
        left = max(0.0, self._drain_until - loop.time())
        return serve.get_replica_context().replica_id.unique_id, self.lifecycle.in_flight, left


class OneRequestId:
    """ASGI middleware that leaves out the answer's X-Request-ID, because Serve's proxy adds the same one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_without_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [header for header in message.get("headers", ()) if header[0] != b"x-request-id"]
                message = {**message, "headers": headers}
            await send(message)

        await self._app(scope, receive, send_without_id)


def _app_of_this_process(settings: Settings) -> FastAPI:
    # multiprocessing runs the main module's file again in every process that it starts. In a Ray worker this is a
    # script that imports Ray: each grading process would load Ray, and take a second to start.
    vars(sys.modules["__main__"]).pop("__file__", None)
    app = create_app(settings, Replica.lifecycle)
    app.add_middleware(OneRequestId)
    return app


def application(settings: Settings, scale: Scale) -> Any:
    """The service as an application of Serve. It carries the settings, and so the token, to the replicas."""

    def build() -> FastAPI:
        return _app_of_this_process(settings)

    deployment = serve.deployment(
        name=APPLICATION,
        max_ongoing_requests=MAX_ONGOING_REQUESTS,
        autoscaling_config=AutoscalingConfig(
            min_replicas=scale.min_replicas,
            max_replicas=scale.max_replicas,
            target_ongoing_requests=scale.ongoing_requests,
            upscale_delay_s=UPSCALE_SECONDS,
        ),
        ray_actor_options={"num_cpus": settings.workers},
        graceful_shutdown_wait_loop_s=0.5,
        # A replica that Serve takes down has as long for its requests as the whole service has when it stops.
        graceful_shutdown_timeout_s=settings.drain_seconds + ANSWER_SECONDS,
        logging_config=LoggingConfig(enable_access_log=False),  # The service has its own.
    )(serve.ingress(build)(Replica))
    return deployment.bind(settings.drain_seconds)
