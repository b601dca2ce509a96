"""One process that serves: uvicorn with the service's limits, draining and garbage collection."""

import asyncio
import errno
import signal
import socket
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn

from math_reward.app import create_app
from math_reward.commands.owner import at_end_of
from math_reward.http.event_loop.connections import WaitingConnections, room_for_connections
from math_reward.http.event_loop.gc_schedule import GCSchedule
from math_reward.http.event_loop.http_protocol import protocol_of
from math_reward.http.event_loop.listener import BACKLOG
from math_reward.http.event_loop.tls import CertificateRefused, certificate_of, with_tls
from math_reward.http.lifecycle import Lifecycle
from math_reward.http.metrics import Metrics
from math_reward.settings import Settings, SettingsError
from math_reward.tokens import Tokens, names_of

KEEP_ALIVE_SECONDS = 75
"""How long an idle connection stays open, so that a client can use it again after a training step."""

ANSWER_SECONDS = 1
"""How long the service, when it stops, has to answer the requests that it could not finish; then it closes them."""

FILES_LACK_SECONDS = 60.0
"""How often the service says that it cannot accept connections, since too many files are open."""

ACCEPTED_AT_ONCE = 16
"""Connections accepted in one round of the event loop. asyncio takes this number from the ``backlog`` it is given."""


class Server(uvicorn.Server):
    """Serves on one listening socket until it is told to stop.

    Args:
        settings: the service's.
        listener: a bound socket. Other processes may serve on it too.
        ready: called once it listens.

    Raises:
        CertificateRefused: the certificate's files cannot be used.
    """

    def __init__(self, settings: Settings, listener: socket.socket, ready: Callable[[], None]) -> None:
        self._lifecycle = Lifecycle()
        self._waiting = WaitingConnections(room_for_connections(settings.workers))
        self._tokens = Tokens(settings.tokens)
        self._certificate = certificate_of(settings)
        protocol: type[asyncio.Protocol] = protocol_of(self._waiting)
        if self._certificate is not None:
            protocol = with_tls(protocol_of(self._waiting), self._certificate, self._waiting)
        app = create_app(settings, self._lifecycle, self._tokens)
        self._metrics: Metrics = app.state.metrics
        if self._certificate is not None:
            self._metrics.file_read("certificate", is_used=True)
        if settings.token_file is not None:
            self._metrics.file_read("tokens", is_used=True)
        # Standard output has only the line of `ready`, and the service writes its own access log.
        config = uvicorn.Config(
            app,
            access_log=False,
            log_level="warning",
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=ANSWER_SECONDS,
            # uvloop accepts one connection in a round, so a health check would wait behind two thousand new ones.
            loop="asyncio",
            http=protocol,
            ws="none",
            backlog=ACCEPTED_AT_ONCE,
        )
        super().__init__(config)
        self._settings = settings
        self._listener = listener
        self._ready = ready
        self._drain_until = float("inf")
        self._said_that_it_drains = False
        self._said_that_files_lack = float("-inf")

    def serve_until_told(self, stdin: int | None = None) -> bool:
        """Serves; returns whether it could start.

        Args:
            stdin: a file descriptor; the service stops when it closes, as it does with its owner's end.
        """
        # uvicorn handles these two signals once it has started; before that there is nothing to drain.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: sys.exit(0))
        if stdin is not None:
            at_end_of(stdin, self._stop)
        self.run(sockets=[self._listener])
        return self.started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self._listener.listen(BACKLOG)
        asyncio.get_running_loop().set_exception_handler(self._unhandled)
        self._gc_schedule = GCSchedule()
        if self._settings.reads_files:  # Else SIGHUP ends the service, as it ends any command.
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._read_again)
        if self.started:
            self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handles SIGTERM and SIGINT. The listener stays open so that new requests get a 503 that says why."""
        self._drain_until = time.monotonic() + (0 if self._lifecycle.draining else self._settings.drain_seconds)
        self._lifecycle.draining = True

    async def on_tick(self, counter: int) -> bool:
        self._gc_schedule.tick(self._lifecycle.in_flight)
        self._waiting.close_late(asyncio.get_running_loop().time())
        if self._lifecycle.draining and not self._said_that_it_drains:
            self._said_that_it_drains = True  # Here and not in the signal's handler, which may interrupt a print.
            left, under_way = max(0.0, self._drain_until - time.monotonic()), self._lifecycle.in_flight
            if under_way:
                said = f"math-reward: It stops. Requests under way: {under_way}; they have {left:.0f} s."
                print(said, file=sys.stderr, flush=True)
        if time.monotonic() > self._drain_until:
            self._lifecycle.give_up()
        overdue = time.monotonic() > self._drain_until + ANSWER_SECONDS
        return await super().on_tick(counter) or self._lifecycle.drained or overdue

    def _unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Says in a line a minute that a connection could not be accepted; asyncio would write many tracebacks."""
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in (errno.EMFILE, errno.ENFILE):
            loop.default_exception_handler(context)
        elif time.monotonic() - self._said_that_files_lack > FILES_LACK_SECONDS:
            self._said_that_files_lack = time.monotonic()
            said = "Connections wait, since too many files are open: raise the limit on open files (ulimit -n)."
            print(f"math-reward: {said}", file=sys.stderr, flush=True)

    def _read_again(self) -> None:
        """Handles SIGHUP: what cannot be used changes nothing."""
        if self._certificate is not None:
            try:
                self._certificate.read_again()
                self._tell("certificate", "The certificate was read again.", is_used=True)
            except CertificateRefused as error:
                self._tell("certificate", f"{error} The certificate before it stays.", is_used=False)
        if self._settings.token_file is None:
            return
        try:
            tokens = self._settings.with_tokens_now().tokens
            self._tokens.replace(tokens)
            self._tell("tokens", f"The tokens were read again: {names_of(tokens)}.", is_used=True)
        except SettingsError as error:
            self._tell("tokens", f"{error} The tokens before it stay valid.", is_used=False)

    def _tell(self, file: str, said: str, *, is_used: bool) -> None:
        self._metrics.file_read(file, is_used=is_used)
        print(f"math-reward: {said}", file=sys.stderr, flush=True)

    def _stop(self) -> None:
        self.should_exit = True
