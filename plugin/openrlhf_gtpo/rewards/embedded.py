"""The embedded reward service: the project's own service beside the trainer, for runs that name no other.

It is started by its command line and called over loopback HTTP; nothing of it is imported here. It ends with the
process that started it: it watches its standard input, and the kernel closes the other end when that process ends.
"""

import logging
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import IO

import httpx

from openrlhf_gtpo.errors import UserError

logger = logging.getLogger("openrlhf_gtpo.rewards.embedded")

START_SECONDS = 120.0  # the first start on a cold disk imports SymPy and FastAPI
STOP_SECONDS = 10.0  # the service itself waits 5 s for answers under way
POLL_SECONDS = 0.05

LISTENING = re.compile(r"^math-reward listening on (http://\S+)\n", re.MULTILINE)
MISSING = re.compile(r"No module named '?([\w.]+)")

# Settings of the user's own service. Here they would open this one to the network, or replace its token or protocol.
NOT_INHERITED = {
    f"MATH_REWARD_{name}" for name in ("HOST", "PORT", "INSECURE", "TOKEN", "TOKEN_FILE", "CERTFILE", "KEYFILE")
}


class EmbeddedServiceError(UserError):
    """The embedded reward service could not be started."""


class EmbeddedService:
    """A reward service in a child process, started by :func:`start_embedded_service`. A context manager that stops it.

    Attributes:
        url: where it grades; ends in ``/v1/grade``.
        token: the bearer token that requests must send.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", token: str, log: IO[bytes]) -> None:
        self.token = token
        self.url = ""
        self._process = process
        self._log = log
        self._begin = log.tell()

    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def stop(self) -> None:
        """Stop the service with SIGTERM, then if necessary it and its workers with SIGKILL.

        Returns when the process is gone. May be called again.
        """
        if self.alive():
            self._process.terminate()
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._log.close()

    def __enter__(self) -> "EmbeddedService":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _output(self) -> str:
        file = self._log.fileno()
        # The process shares the file's position, which a seek would move for its next line.
        return os.pread(file, os.fstat(file).st_size - self._begin, self._begin).decode(errors="replace")

    def _last_line(self) -> str:
        return self._output().strip().split("\n")[-1].strip() or "(nothing)"

    def _wait_until_ready(self) -> None:
        """Raise :class:`EmbeddedServiceError` if the service ends, or is not ready within ``START_SECONDS``."""
        give_up_at = time.monotonic() + START_SECONDS
        problem = "did not say where it listens"
        headers = {"Authorization": f"Bearer {self.token}"}
        with httpx.Client(headers=headers, trust_env=False, timeout=START_SECONDS) as http:
            while time.monotonic() < give_up_at:
                if not self.alive():
                    raise EmbeddedServiceError(self._why_it_ended())
                if listens := LISTENING.search(self._output()):
                    self.url = f"{listens[1]}/v1/grade"
                    try:
                        status = http.get(f"{listens[1]}/readyz").status_code
                    except httpx.TransportError as error:
                        problem = f"could not be asked whether it is ready ({error})"
                    else:
                        if status == 200:
                            return
                        problem = f"was not ready (/readyz answers {status})"
                time.sleep(POLL_SECONDS)
        raise EmbeddedServiceError(
            f"The embedded reward service {problem} within {START_SECONDS:g} s; its last line was: {self._last_line()}"
        )

    def _why_it_ended(self) -> str:
        last_line = self._last_line()
        if missing := MISSING.search(last_line):
            return (
                f"The embedded reward service cannot start because the Python package {missing[1]} is not installed: "
                "pip install 'math-reward[server]', or give the URL of a reward service by --reward.remote_url."
            )
        code = self._process.returncode
        return f"The embedded reward service ended with exit code {code} at its start; it said: {last_line}"


def start_embedded_service(workers: int | None = None, log_path: Path | None = None) -> EmbeddedService:
    """Start a reward service on a free loopback port, and return when it is ready to grade.

    The service has its own session, so that a Ctrl-C in the terminal reaches the trainer alone. Its random token is
    passed in its environment, never on its command line.

    Args:
        workers: grading processes; None for one per core.
        log_path: file to which its output is appended; by default a temporary one.

    Raises:
        EmbeddedServiceError: it did not start.
    """
    command = [sys.executable, "-m", "math_reward", "serve", "--port", "0", "--exit-on-stdin-close"]
    if workers is not None:
        command += ["--workers", str(workers)]
    token = secrets.token_urlsafe(32)
    environment = {name: value for name, value in os.environ.items() if name.upper() not in NOT_INHERITED}
    log = tempfile.TemporaryFile() if log_path is None else _open_log(log_path)  # noqa: SIM115
    process = subprocess.Popen(
        command,
        env=environment | {"MATH_REWARD_TOKEN": token},
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    service = EmbeddedService(process, token, log)
    try:
        service._wait_until_ready()
    except BaseException:
        service.stop()
        raise
    logger.info("The embedded reward service grades at %s.", service.url)
    return service


def _open_log(path: Path) -> IO[bytes]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("a+b")
    except OSError as error:
        raise EmbeddedServiceError(
            f"The log of the embedded reward service, {path}, cannot be written: {error.strerror}."
        ) from error
