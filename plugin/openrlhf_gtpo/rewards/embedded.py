"""The embedded reward service: the project's own service beside the trainer, for runs that name no other.

It is started by its command line and called over loopback HTTP; nothing of it is imported here. It ends with the
process that started it: it watches its standard input, and the kernel closes the other end when that process ends.
"""

import contextlib
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from openrlhf_gtpo.errors import UserError

START_SECONDS = 120.0  # the first start on a cold disk imports SymPy and FastAPI
STOP_SECONDS = 18.0  # what docs/reward-service.md allows a service: its --drain-seconds, and ten more
LISTENING = re.compile(r"^math-reward listening on (http://\S+)\n", re.MULTILINE)
MISSING = re.compile(r"No module named '?([\w.]+)")
# Settings of the user's own service. Here they would open this one to the network, or replace its token or protocol.
NOT_INHERITED = {
    f"MATH_REWARD_{name}" for name in ("HOST", "PORT", "INSECURE", "TOKEN", "TOKEN_FILE", "CERTFILE", "KEYFILE")
}


@dataclass(frozen=True)
class EmbeddedService:
    url: str
    """Where it grades."""
    token: str = field(repr=False)
    """That requests must send."""


@contextlib.contextmanager
def start_embedded_service(log_path: Path | None = None, workers: int | None = None) -> Iterator[EmbeddedService]:
    """A context with a reward service on a free loopback port, which is ready to grade.

    It has its own session, so that a Ctrl-C in the terminal reaches the trainer alone. Its random token is passed in
    its environment, never on its command line.

    Args:
        log_path: file to which its output is appended; by default a temporary one.
        workers: grading processes; None for one a core.

    Raises:
        UserError: it did not start.
    """
    token = secrets.token_urlsafe(32)
    environment = {name: value for name, value in os.environ.items() if name.upper() not in NOT_INHERITED}
    command = [sys.executable, "-m", "math_reward", "serve", "--port", "0", "--exit-on-stdin-close"]
    command += [] if workers is None else ["--workers", str(workers)]
    if log_path is None:
        log_path = Path(tempfile.mkdtemp(prefix="math-reward-")) / "reward_service.log"
    try:
        log_path.parent.mkdir(parents=True, exist_ok=True)
        log = log_path.open("ab")
    except OSError as error:
        raise UserError(
            f"The log of the embedded reward service, {log_path}, cannot be written: {error.strerror}."
        ) from error
    with log:
        begin = log.tell()
        process = subprocess.Popen(
            command,
            env=environment | {"MATH_REWARD_TOKEN": token},
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield EmbeddedService(f"{_address_when_ready(process, log_path, begin, token)}/v1/grade", token)
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # and its workers
        process.communicate()


def _address_when_ready(process: "subprocess.Popen[bytes]", log_path: Path, begin: int, token: str) -> str:
    give_up_at, headers = time.monotonic() + START_SECONDS, {"Authorization": f"Bearer {token}"}
    with httpx.Client(headers=headers, trust_env=False, timeout=START_SECONDS) as http:
        while process.poll() is None and time.monotonic() < give_up_at:
            said = log_path.read_bytes()[begin:].decode(errors="replace")
            if listens := LISTENING.search(said):
                with contextlib.suppress(httpx.TransportError):
                    if http.get(f"{listens[1]}/readyz").status_code == 200:
                        return listens[1]
            time.sleep(0.05)
    said = log_path.read_bytes()[begin:].decode(errors="replace")
    last = (said.strip().splitlines() or ["(nothing)"])[-1].strip()
    if missing := MISSING.search(last):
        raise UserError(
            f"The embedded reward service cannot start because the Python package {missing[1]} is not installed: pip "
            "install 'math-reward[server]', or give the URL of a reward service by --reward.remote_url."
        )
    raise UserError(f"The embedded reward service did not start; the last line of {log_path} is: {last}")
