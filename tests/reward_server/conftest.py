"""A live reward service: the real command, in a process of its own, on a free port of the loopback interface."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import pytest


class LiveServer:
    """``math-reward serve`` as a child process. Closing its standard input stops it, should a test fail half-way."""

    def __init__(self, *options: str, **environment: str) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("MATH_REWARD_")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "math_reward", "serve", "--port", "0", "--exit-on-stdin-close", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=clean | environment,
        )
        assert self.process.stdout is not None
        self.first_line = self.process.stdout.readline().rstrip("\n")
        self.url = self.first_line.rpartition(" ")[2]
        self.client = httpx.Client(base_url=self.url, timeout=60)

    def when_ready(self) -> "LiveServer":
        limit = time.monotonic() + 60
        while (response := self.client.get("/readyz")).status_code != 200:
            assert time.monotonic() < limit, response.text
        return self

    def everything(self) -> list[psutil.Process]:
        """The server's process and all that it has started, workers included."""
        server = psutil.Process(self.process.pid)
        return [server, *server.children(recursive=True)]

    def stop(self) -> None:
        self.client.close()
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=30)
        assert self.process.stdout is not None
        self.process.stdout.close()


def alive(process: psutil.Process) -> bool:
    # An orphan that has ended stays a zombie where process 1 does not collect it.
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def _all_end(processes: list[psutil.Process], seconds: float = 20) -> bool:
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        try:
            if not any(alive(process) for process in processes):
                return True
        except psutil.NoSuchProcess:
            continue
        time.sleep(0.05)
    return False


@pytest.fixture
def all_end() -> Callable[[list[psutil.Process]], bool]:
    """Waits until all the processes have ended; False where one of them stays."""
    return _all_end


@pytest.fixture(scope="module")
def serve() -> Iterator[Callable[..., LiveServer]]:
    """Starts live servers and stops them after the module's last test."""
    servers: list[LiveServer] = []

    def start(*options: str, **environment: str) -> LiveServer:
        servers.append(LiveServer(*options, **environment))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def stub_graders(monkeypatch: pytest.MonkeyPatch):
    """The module of graders for tests of the pool, importable by name here and in the worker processes."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
    import stub_graders

    return stub_graders
