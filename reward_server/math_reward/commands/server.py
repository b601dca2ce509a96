"""The process that serves: uvicorn as it is, and a drain that answers what is under way and refuses what is new."""

import asyncio
import gc
import logging
import math
import socket
import ssl
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn

from math_reward.app import create_app
from math_reward.commands.connection import Connection
from math_reward.http.guard import HEAD_BYTES
from math_reward.http.lifecycle import Lifecycle
from math_reward.http.log import Log
from math_reward.pool.pool import COMPLAINT_SECONDS
from math_reward.settings import Settings

logger = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS = 75
"""How long an idle connection stays open, so that a client can use it again after a training step."""

ANSWER_SECONDS = 1
"""How long the service, when it stops, has to answer the requests that it could not finish; then it closes them."""

BACKLOG = 4096
"""Connections that may wait to be accepted; the kernel may lower it."""


class CertificateRefused(ValueError):
    """The certificate's files cannot be used; the message is a sentence."""


class Server(uvicorn.Server):
    """Serves until SIGTERM or SIGINT, or until ``stop``.

    Args:
        settings: the service's.
        ready: called once it listens.

    Attributes:
        log: what is written on standard error.

    Raises:
        CertificateRefused: of ``settings``.
    """

    def __init__(self, settings: Settings, ready: Callable[[], None]) -> None:
        self._lifecycle = Lifecycle()
        self._drain_seconds = settings.drain_seconds
        self._drain_until = float("inf")
        self._ready = ready
        self._complained_at = -math.inf
        self.log = Log()
        logging.getLogger().addHandler(self.log)
        # Standard output has only the line of `ready`, and the service writes its own access log.
        config = uvicorn.Config(
            create_app(settings, self._lifecycle, self.log),
            access_log=False,
            log_config=None,
            log_level="warning",
            proxy_headers=False,  # Anybody can send them; who is behind a proxy stands in its log.
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=ANSWER_SECONDS,
            # uvloop accepts one connection in a round, so a health check would wait behind two thousand new ones.
            loop="asyncio",
            http=Connection,
            h11_max_incomplete_event_size=HEAD_BYTES,
            ws="none",
            backlog=BACKLOG,
            ssl_certfile=settings.certfile,
            ssl_keyfile=settings.keyfile,
        )
        try:
            config.load()
        except (OSError, ssl.SSLError) as error:
            raise CertificateRefused(f"The certificate {settings.certfile} cannot be used: {error}.") from None
        super().__init__(config)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(self._complain)
        await super().startup(sockets=sockets)
        gc.collect()
        gc.freeze()  # A collection looks at what requests have made, and not at all modules: that takes 50 ms.
        if self.started:
            self._ready()

    def _complain(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Logs what no request is the cause of. asyncio tries to accept BACKLOG connections when it has no descriptor,
        and tells of each try."""
        if "socket.accept()" not in context.get("message", ""):
            loop.default_exception_handler(context)
        elif loop.time() - self._complained_at >= COMPLAINT_SECONDS:
            self._complained_at = loop.time()
            logger.error("No connection can be accepted (%s): raise `ulimit -n`.", context.get("exception"))

    def stop(self) -> None:
        """Ends at once; what is under way has ANSWER_SECONDS."""
        self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handles the signals. The listener stays open, so that new requests get a 503 that says why."""
        self._drain_until = time.monotonic() + (0 if self._lifecycle.draining else self._drain_seconds)
        self._lifecycle.draining = True

    async def on_tick(self, counter: int) -> bool:
        drained = self._lifecycle.draining and self._lifecycle.in_flight == 0
        return await super().on_tick(counter) or drained or time.monotonic() > self._drain_until
