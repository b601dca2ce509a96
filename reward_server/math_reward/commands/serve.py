"""``math-reward serve``: runs the service until it is told to stop."""

import argparse
import contextlib
import os
import resource
import socket
import sys
import threading
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from math_reward.commands.refusal import refuse

if TYPE_CHECKING:
    from math_reward.settings import Settings

WITHOUT_FLAG = ("address", "from_containers", "token", "token_file")
"""Settings of compose, and secrets, which a command line would show."""

SEND_BUFFER_BYTES = 2**18
"""How much of an answer the kernel holds of a client that does not read."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command's arguments."""
    parser = commands.add_parser(
        "serve",
        help="run the reward service",
        description="Runs the reward service. Once it listens it prints: math-reward listening on http://HOST:PORT",
        epilog="Every flag but --exit-on-stdin-close can also be set as MATH_REWARD_<NAME>. The token that clients "
        "must send has no flag: set MATH_REWARD_TOKEN, or MATH_REWARD_TOKEN_FILE to a file with one token on each "
        "line. SIGTERM and Ctrl-C drain the service: it takes no new requests, answers those under way and exits with "
        "0. A second signal ends it at once.",
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
    from math_reward.commands.server import CertificateRefused, Server
    from math_reward.settings import SettingsError, load_settings

    flags = {k: v for k, v in vars(arguments).items() if k not in ("command", "run", "exit_on_stdin_close")}
    if arguments.exit_on_stdin_close and "MATH_REWARD_ACCESS_LOG" not in os.environ and flags["access_log"] is None:
        flags["access_log"] = False  # Another program started the service; this would fill its log.
    try:
        settings = load_settings(**flags)
    except SettingsError as error:
        refuse(str(error))
    listener = _listen(settings.host, settings.port)
    host, port = listener.getsockname()[:2]
    scheme = "http" if settings.certfile is None else "https"
    url = f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
    _allow_many_connections()
    try:
        server = Server(settings, lambda: _say(f"math-reward listening on {url}"))
    except CertificateRefused as error:
        refuse(str(error))
    server.log.write(_shown(settings))
    if arguments.exit_on_stdin_close:
        threading.Thread(target=_stop_at_end_of_stdin, args=(server,), daemon=True).start()
    server.run(sockets=[listener])
    if not server.started:
        sys.exit(1)


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket; refuses an address that cannot be listened on."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.create_server(address[:2], family=family)
    except socket.gaierror as error:
        refuse(f"Cannot listen on {host!r}: {error.strerror}. Set --host to an address of this machine.")
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        refuse(f"Cannot listen on {host} port {port}: {reason}. Choose another --host or --port.")
    # The kernel keeps what a client does not read, for each connection: as much as this, and not megabytes.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
    # asyncio switches Nagle's algorithm off only for sockets whose ``proto`` is TCP. A socket that is made from a file
    # descriptor finds that out, and so do the connections that it accepts. With Nagle's algorithm the body of an
    # answer waits 40 ms until the client has acknowledged the head.
    return socket.socket(fileno=listener.detach())


def _say(line: str) -> None:
    """On standard output. Where it is a file on a full disk, the service serves all the same."""
    with contextlib.suppress(OSError):
        os.write(1, f"{line}\n".encode())


def _stop_at_end_of_stdin(server: Any) -> None:
    # os.read: a thread that waits inside sys.stdin holds a lock that the interpreter needs to exit.
    while os.read(0, 4096):
        pass
    server.stop()


def _shown(settings: "Settings") -> str:
    """The settings on one line, without the secrets."""
    shown = settings.model_dump(exclude={"token", "token_file"})
    shown["token"] = "set" if settings.tokens else "none"
    return "math-reward settings: " + " ".join(f"{name}={value}" for name, value in shown.items())


def _allow_many_connections() -> None:
    """Raises the soft limit on open files, often 1,024, to the hard one: every connection is an open file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
