"""``math-reward serve``: runs the service until it is told to stop."""

import argparse
import asyncio
import os
import resource
import signal
import socket
import sys
import threading
import time
from types import FrameType
from typing import TYPE_CHECKING, Any

from math_reward.commands.refusal import refuse

if TYPE_CHECKING:
    from math_reward.settings import Settings

KEEP_ALIVE_SECONDS = 75
"""How long an idle connection stays open, so that a client can use it again after a training step."""

ANSWER_SECONDS = 1
"""How long the service, when it stops, has to answer the requests that it could not finish; then it closes them."""

BACKLOG = 4096
"""Connections that may wait to be accepted; the kernel may lower it."""

ACCEPTED_AT_ONCE = 16
"""Connections accepted in one round of the event loop. asyncio takes this number from the ``backlog`` it is given."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command's arguments."""
    parser = commands.add_parser(
        "serve",
        help="run the reward service",
        description="Runs the reward service. Once it listens it prints: math-reward listening on http://HOST:PORT",
        epilog="Every flag but the last can also be set as MATH_REWARD_<NAME>. The token that clients must send has "
        "no flag: set MATH_REWARD_TOKEN, or MATH_REWARD_TOKEN_FILE to a file that holds it. SIGTERM and Ctrl-C drain "
        "the service: it takes no new requests, answers those under way and exits with 0. A second signal ends it at "
        "once.",
    )
    parser.add_argument("--host", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to listen on; 0 picks a free one (8000)")
    parser.add_argument("--workers", type=int, help="grading processes (one per core)")
    parser.add_argument("--deadline", type=float, help="CPU seconds that grading one item may take (2)")
    parser.add_argument("--max-items", type=int, help="items that one request may have (4096)")
    parser.add_argument("--max-queued", type=int, help="items that may wait for a worker (32768)")
    parser.add_argument("--max-body-bytes", type=int, help="size of a request body (16777216)")
    parser.add_argument(
        "--max-pending-bytes", type=int, help="total size of the bodies of all requests under way (67108864)"
    )
    parser.add_argument("--body-seconds", type=float, help="seconds that a request body may take to arrive (30)")
    parser.add_argument(
        "--drain-seconds", type=float, help="seconds that requests under way may still take when the service stops (8)"
    )
    parser.add_argument(
        "--access-log",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="write a JSON line per request to standard error (on; off with --exit-on-stdin-close)",
    )
    parser.add_argument(
        "--insecure",
        action="store_true",
        default=None,
        help="listen without a token on an address that others can reach",
    )
    parser.add_argument(
        "--allowed-hosts",
        help="host names that a service without a token answers to, comma-separated; it always answers to addresses, "
        "localhost and names without a dot",
    )
    parser.add_argument(
        "--exit-on-stdin-close",
        action="store_true",
        help="stop when standard input closes, so that the service ends with the process that started it",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Runs the service; returns when it has stopped."""
    try:
        import uvicorn

        from math_reward.app import create_app
        from math_reward.http.event_loop.connections import WaitingConnections
        from math_reward.http.event_loop.gc_schedule import GCSchedule
        from math_reward.http.event_loop.http_protocol import protocol_of
        from math_reward.http.lifecycle import Lifecycle
        from math_reward.settings import SettingsError, load_settings
    except ModuleNotFoundError as error:  # the library alone is installed
        refuse(f"{error}, which the service needs: pip install 'math-reward[server]'.")

    flags = {k: v for k, v in vars(arguments).items() if k not in ("command", "run", "exit_on_stdin_close")}
    if arguments.exit_on_stdin_close and "MATH_REWARD_ACCESS_LOG" not in os.environ and flags["access_log"] is None:
        flags["access_log"] = False  # Another program started the service; this would fill its log.
    try:
        settings = load_settings(**flags)
    except SettingsError as error:
        refuse(str(error))
    try:
        listener = _listen(settings.host, settings.port)
    except socket.gaierror as error:
        refuse(f"Cannot listen on {settings.host!r}: {error.strerror}. Set --host to an address of this machine.")
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        refuse(f"Cannot listen on {settings.host} port {settings.port}: {reason}. Choose another --host or --port.")
    _allow_many_connections()
    lifecycle = Lifecycle()
    waiting = WaitingConnections()

    class Server(uvicorn.Server):
        drain_until = float("inf")

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets=sockets)
            listener.listen(BACKLOG)
            self.gc_schedule = GCSchedule()
            if self.started:
                print(f"math-reward listening on {_url(listener)}", flush=True)

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            """Handles SIGTERM and SIGINT. The listener stays open so that new requests get a 503 that says why."""
            self.drain_until = time.monotonic() + (0 if lifecycle.draining else settings.drain_seconds)
            lifecycle.draining = True

        async def on_tick(self, counter: int) -> bool:
            self.gc_schedule.tick(lifecycle.in_flight)
            waiting.close_late(asyncio.get_running_loop().time())
            if time.monotonic() > self.drain_until:
                lifecycle.give_up()
            overdue = time.monotonic() > self.drain_until + ANSWER_SECONDS
            return await super().on_tick(counter) or lifecycle.drained or overdue

    print(_shown(settings), file=sys.stderr, flush=True)
    # uvicorn handles these two signals once it has started; before that there is nothing to drain.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    # Standard output has only the line of startup(), and the service writes its own access log.
    config = uvicorn.Config(
        create_app(settings, lifecycle),
        access_log=False,
        log_level="warning",
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=ANSWER_SECONDS,
        # uvloop accepts one connection in a round, so a health check would wait behind two thousand new connections.
        loop="asyncio",
        http=protocol_of(waiting),
        ws="none",
        backlog=ACCEPTED_AT_ONCE,
    )
    server = Server(config)
    if arguments.exit_on_stdin_close:
        threading.Thread(target=_stop_at_end_of_input, args=(server,), name="stdin-watch", daemon=True).start()
    server.run(sockets=[listener])
    if not server.started:
        sys.exit(1)


def _shown(settings: "Settings") -> str:
    """The settings on one line, without the secrets."""
    shown = settings.model_dump(exclude={"token", "token_file"})
    shown["token"] = "none" if settings.token is None else "set"
    return "math-reward settings: " + " ".join(f"{name}={value}" for name, value in shown.items())


def _stop_at_end_of_input(server: Any) -> None:
    # os.read, since a thread that waits inside sys.stdin holds a lock that the interpreter needs to exit.
    while os.read(0, 4096):
        pass
    server.should_exit = True


def _allow_many_connections() -> None:
    """Raises the soft limit on open files, often 1,024, to the hard one: every connection is an open file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _listen(host: str, port: int) -> socket.socket:
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    listener = socket.create_server(address[:2], family=family, backlog=BACKLOG)
    # asyncio switches Nagle's algorithm off only for sockets whose ``proto`` is TCP. A socket that is made from a file
    # descriptor finds that out, and so do the connections that it accepts. With Nagle's algorithm the body of an
    # answer waits 40 ms until the client has acknowledged the head.
    return socket.socket(fileno=listener.detach())


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
