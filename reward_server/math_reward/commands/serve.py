"""``math-reward serve``: runs the service until it is told to stop."""

import argparse
import os
import resource
import socket
import sys
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from math_reward.commands.judge_options import needs_httpx
from math_reward.commands.refusal import refuse

if TYPE_CHECKING:
    from math_reward.settings import Settings

WITHOUT_FLAG = ("address", "from_containers", "token", "token_file", "judge_key")
"""Settings of compose, and secrets, which a command line would show."""

LEAST_CONNECTIONS = 9
"""The service does not start with room for fewer connections."""

METRICS_FILE_BYTES = 2**20
"""Several processes count in files that begin with 64 KiB and grow with the names of tokens."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command's arguments."""
    parser = commands.add_parser(
        "serve",
        help="run the reward service",
        description="Runs the reward service. Once it listens it prints: math-reward listening on http://HOST:PORT",
        epilog="Every flag but --exit-on-stdin-close can also be set as MATH_REWARD_<NAME>. The token that clients "
        "must send has no flag: set MATH_REWARD_TOKEN, or MATH_REWARD_TOKEN_FILE to a file that holds it, or a name "
        "and a token on each line; SIGHUP reads the file again. SIGTERM and Ctrl-C drain the service: it takes no new "
        "requests, answers those under way and exits with 0. A second signal ends it at once.",
    )
    parser.add_argument(
        "--exit-on-stdin-close",
        action="store_true",
        help="stop when standard input closes, so that the service ends with the process that started it",
    )
    parser.set_defaults(run=run)


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Adds a flag for each setting, for this command alone: the others need not wait for pydantic, nor have it."""
    try:
        import uvicorn  # noqa: F401 - `run` needs it too

        from math_reward.settings import Settings
    except ModuleNotFoundError as error:  # the library alone is installed
        refuse(f"{error}, which the service needs: pip install 'math-reward[server]'.")
    for name, field in Settings.model_fields.items():
        if name in WITHOUT_FLAG:
            continue
        kind: dict[str, Any] = {"type": field.annotation} if field.annotation in (int, float) else {}
        if field.annotation is bool:
            kind = {"action": argparse.BooleanOptionalAction if field.default else "store_true"}
        if get_origin(field.annotation) is Literal:
            kind = {"choices": get_args(field.annotation)}
        has_default = "action" not in kind and isinstance(field.default, int | float | str) and field.default
        shown = f" ({str(field.default).removesuffix('.0')})" if has_default else ""
        parser.add_argument(f"--{name.replace('_', '-')}", default=None, help=f"{field.description}{shown}", **kind)


def run(arguments: argparse.Namespace) -> None:
    """Runs the service; returns when it has stopped."""
    from math_reward.http.event_loop.connections import room_for_connections
    from math_reward.http.event_loop.listener import listen, url_of
    from math_reward.http.event_loop.tls import CertificateRefused, certificate_of
    from math_reward.settings import SettingsError, load_settings

    flags = {k: v for k, v in vars(arguments).items() if k not in ("command", "run", "exit_on_stdin_close")}
    if arguments.exit_on_stdin_close and "MATH_REWARD_ACCESS_LOG" not in os.environ and flags["access_log"] is None:
        flags["access_log"] = False  # Another program started the service; this would fill its log.
    try:
        settings = load_settings(**flags)
    except SettingsError as error:
        refuse(str(error))
    if settings.asks_judge is not None:
        needs_httpx()
    try:
        certificate_of(settings)
    except CertificateRefused as error:
        refuse(str(error))
    try:
        listener = listen(settings.host, settings.port)
    except socket.gaierror as error:
        refuse(f"Cannot listen on {settings.host!r}: {error.strerror}. Set --host to an address of this machine.")
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        refuse(f"Cannot listen on {settings.host} port {settings.port}: {reason}. Choose another --host or --port.")
    _allow_many_connections()
    workers = -(-settings.workers // settings.http_processes)
    room = room_for_connections(workers)
    if room < LEAST_CONNECTIONS:
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        refuse(
            f"A process may have {files} open files, and one with {workers} grading processes needs "
            f"{files - room + LEAST_CONNECTIONS}: raise the limit (ulimit -n), or lower --workers."
        )
    if settings.http_processes > 1:
        _allow_files_of_metrics()
    print(_shown(settings), file=sys.stderr, flush=True)
    stdin = 0 if arguments.exit_on_stdin_close else None
    url = url_of(listener, tls=settings.certfile is not None)

    def ready() -> None:
        print(f"math-reward listening on {url}", flush=True)

    if settings.http_processes > 1:
        from math_reward.commands.serve_processes import Processes

        served = Processes(settings, listener, ready).serve_until_told(stdin)
    else:
        from math_reward.commands.server import Server

        served = Server(settings, listener, ready).serve_until_told(stdin)
    if not served:
        sys.exit(1)


def _shown(settings: "Settings") -> str:
    """The settings on one line, without the secrets."""
    from math_reward.tokens import names_of

    shown = settings.model_dump(exclude={"token", "token_file", "judge_key"})
    shown["token"] = names_of(settings.tokens)
    return "math-reward settings: " + " ".join(f"{name}={value}" for name, value in shown.items())


def _allow_many_connections() -> None:
    """Raises the soft limit on open files, often 1,024, to the hard one: every connection is an open file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _allow_files_of_metrics() -> None:
    """Raises the soft limit on the size of files to the hard one, and refuses to start where that is too low: a
    process would end at its first count.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    if soft == resource.RLIM_INFINITY or soft >= METRICS_FILE_BYTES:
        return
    if hard != resource.RLIM_INFINITY and hard < METRICS_FILE_BYTES:
        refuse(
            f"Several processes count in files of up to {METRICS_FILE_BYTES:,} bytes, and {hard:,} are allowed: "
            "raise the limit (ulimit -f), or use --http-processes 1."
        )
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
