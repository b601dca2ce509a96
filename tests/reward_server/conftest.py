"""A live reward service: the real command, in a process of its own, on a free port of the loopback interface."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import httpx
import psutil
import pytest

from math_reward.cli import main

HERE = Path(__file__).parent


class LiveServer:
    """``math-reward serve`` as a child process. Closing its standard input stops it, should a test fail half-way.

    With ``stub=True`` its grader also obeys commands, see ``stub_graders.obey_or_grade``. ``ulimit``: a limit of the
    shell that starts it. ``stderr``: its standard error, as `subprocess.Popen` takes it, in place of a file.
    """

    def __init__(
        self,
        *options: str,
        stub: bool = False,
        ulimit: str | None = None,
        stderr: int | IO[str] | None = None,
        **environment: str,
    ) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("MATH_REWARD_")}
        program = [str(HERE / "stub_service.py")] if stub else ["-m", "math_reward"]
        shell = [] if ulimit is None else ["bash", "-c", f'ulimit {ulimit} && exec "$@"', "-"]
        self._log = tempfile.NamedTemporaryFile("w")  # noqa: SIM115 (closed by stop)
        self.process = subprocess.Popen(
            [*shell, sys.executable, *program, "serve", "--port", "0", "--exit-on-stdin-close", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log if stderr is None else stderr,
            text=True,
            env=clean | environment,
        )
        assert self.process.stdout is not None
        self.first_line = self.process.stdout.readline().rstrip("\n")
        assert self.first_line, self.log()
        self.url = self.first_line.rpartition(" ")[2]
        self.client = httpx.Client(base_url=self.url, timeout=60)

    def when_ready(self) -> "LiveServer":
        limit = time.monotonic() + 120
        while (response := self.client.get("/readyz")).status_code != 200:
            assert time.monotonic() < limit, response.text
        return self

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def log(self) -> list[str]:
        """The lines of standard error so far, read by an opening of its own: the place in ``_log`` is the server's
        too, and what it writes while that is moved back replaces what it wrote first."""
        return Path(self._log.name).read_text().splitlines()

    def everything(self) -> list[psutil.Process]:
        """The server's process and all that it has started, workers included."""
        server = psutil.Process(self.process.pid)
        return [server, *server.children(recursive=True)]

    def stop(self) -> None:
        self.client.close()
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=120)
        assert self.process.stdout is not None
        self.process.stdout.close()
        if self.process.stderr is not None:
            self.process.stderr.close()
        sys.stderr.write("".join(f"{line}\n" for line in self.log()))  # pytest shows it where a test fails.
        self._log.close()


WaitFor = Callable[[Callable[[], bool]], None]

WAIT = 120
"""Seconds. Only a failure waits as long as this; a busy machine takes half a minute for what takes one second here."""


def alive(process: psutil.Process) -> bool:
    # An orphan that has ended stays a zombie where process 1 does not collect it.
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def _all_end(processes: list[psutil.Process], seconds: float = 120) -> bool:
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        try:
            if not any(alive(process) for process in processes):
                return True
        except psutil.NoSuchProcess:
            continue
        time.sleep(0.05)
    return False


def _wait_for(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < limit, f"waited {WAIT} s in vain"
        time.sleep(0.01)


@pytest.fixture
def wait_for() -> WaitFor:
    """Returns when the condition holds; fails after WAIT seconds."""
    return _wait_for


@pytest.fixture
def all_end() -> Callable[[list[psutil.Process]], bool]:
    """Waits until all the processes have ended; False where one of them stays."""
    return _all_end


@pytest.fixture(scope="module")
def serve() -> Iterator[Callable[..., LiveServer]]:
    """Starts live servers and stops them after the module's last test."""
    servers: list[LiveServer] = []

    def start(*options: str, **given: Any) -> LiveServer:
        servers.append(LiveServer(*options, **given))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def stub_graders(monkeypatch: pytest.MonkeyPatch):
    """The module of graders for tests of the pool, importable by name here and in the worker processes."""
    monkeypatch.syspath_prepend(HERE)
    import stub_graders

    return stub_graders


@pytest.fixture
def in_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """``math-reward`` with arguments, in this process: exit code, standard output, standard error."""

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["math-reward", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        assert isinstance(end.value.code, int)
        return end.value.code, *capsys.readouterr()

    return call
