"""The command line: ``math-reward serve`` and ``math-reward grade``."""

import argparse
import json
import os
import signal
import socket
import sys
import threading
from typing import Any, NoReturn

from math_reward import __version__

SHUTDOWN_SECONDS = 5
"""How long requests that are being answered may take to end when the service is told to stop."""

KEEP_ALIVE_SECONDS = 75
"""How long an idle connection stays open, so that a client can use it again after a training step."""


def main() -> None:
    """Entry point of ``math-reward``. Exit codes: 0 done (or correct), 1 not correct, 2 wrong usage."""
    arguments = _parser().parse_args()
    if arguments.command == "serve":
        _serve(arguments)
    else:
        _grade(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="math-reward", description="Grades math completions against reference answers."
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="{serve,grade}")

    serve = commands.add_parser(
        "serve",
        help="run the reward service",
        description="Runs the reward service. Once it listens it prints: math-reward listening on http://HOST:PORT",
        epilog="All but the last can also be set as MATH_REWARD_<NAME>. The token that clients must send is only ever "
        "set as MATH_REWARD_TOKEN, or as MATH_REWARD_TOKEN_FILE, a file that holds it.",
    )
    serve.add_argument("--host", help="address to listen on (127.0.0.1)")
    serve.add_argument("--port", type=int, help="port to listen on; 0 picks a free one (8000)")
    serve.add_argument("--workers", type=int, help="grading processes (one per core)")
    serve.add_argument("--deadline", type=float, help="seconds that grading one item may take (5)")
    serve.add_argument("--max-items", type=int, help="items that one request may have (4096)")
    serve.add_argument("--max-body-bytes", type=int, help="size of a request body (67108864)")
    serve.add_argument(
        "--insecure",
        action="store_true",
        default=None,
        help="listen without a token on an address that others can reach",
    )
    serve.add_argument(
        "--exit-on-stdin-close",
        action="store_true",
        help="stop when standard input ends, so as not to outlive the process that holds its other end",
    )

    grade = commands.add_parser(
        "grade",
        help="grade one completion",
        description="Grades one completion. Exit code 0 where it is correct, 1 where it is not.",
        epilog="Write -- before a completion or a reference that begins with a dash.",
    )
    grade.add_argument(
        "completion", metavar="COMPLETION", help=r"what the model wrote, such as 'So it is \boxed{42}.'"
    )
    grade.add_argument("reference", metavar="REFERENCE", help="the reference answer, such as 42")
    grade.add_argument("--deadline", type=float, help="seconds that grading may take (5)")
    grade.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _serve(arguments: argparse.Namespace) -> None:
    import uvicorn

    from math_reward.app import create_app
    from math_reward.settings import SettingsError, load_settings

    flags = {k: v for k, v in vars(arguments).items() if k not in ("command", "exit_on_stdin_close")}
    try:
        settings = load_settings(**flags)
    except SettingsError as error:
        _refuse(str(error))
    try:
        listener = _listen(settings.host, settings.port)
    except socket.gaierror as error:
        _refuse(f"{settings.host!r} is no address to listen on: {error.strerror}.")
    except OSError as error:
        _refuse(f"Cannot listen on {settings.host} port {settings.port}: {os.strerror(error.errno or 0)}.")

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets=sockets)
            if self.started:
                print(f"math-reward listening on {_url(listener)}", flush=True)

    # uvicorn stops in good order on these and then raises them again, for whoever was asked before it.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    # Standard output is for the line above alone, so no access log.
    config = uvicorn.Config(
        create_app(settings),
        access_log=False,
        log_level="warning",
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    server = Server(config)
    if arguments.exit_on_stdin_close:
        threading.Thread(target=_stop_at_end_of_input, args=(server,), name="stdin-watch", daemon=True).start()
    server.run(sockets=[listener])
    if not server.started:
        sys.exit(1)


def _stop_at_end_of_input(server: Any) -> None:
    # os.read and not sys.stdin: a thread that waits inside sys.stdin holds a lock which the interpreter needs to exit.
    while os.read(0, 4096):
        pass
    server.should_exit = True


def _listen(host: str, port: int) -> socket.socket:
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    return socket.create_server(address[:2], family=family, backlog=2048)


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _grade(arguments: argparse.Namespace) -> None:
    from math_reward.settings import SettingsError, load_settings
    from math_reward.workers import Item, WorkerPool

    try:
        settings = load_settings(deadline=arguments.deadline, host="127.0.0.1")  # Nothing is served here.
    except SettingsError as error:
        _refuse(str(error))
    with WorkerPool(workers=1, deadline=settings.deadline) as pool:
        grade = pool.submit(Item(arguments.completion, arguments.reference)).result().grade
    row = {
        "verdict": grade.verdict.value,
        "answer": grade.answer,
        "reference": grade.reference,
        "reward": grade.reward,
        "detail": grade.detail,
    }
    if arguments.json:
        print(json.dumps(row, ensure_ascii=False))
    else:
        for name, value in row.items():
            if value is not None:
                print(f"{name:<10}{value}")
    sys.exit(0 if grade.correct else 1)


def _refuse(sentence: str) -> NoReturn:
    print(f"math-reward: {sentence}", file=sys.stderr)
    sys.exit(2)
