"""A Ray cluster as `ray start` makes it: raylets on this machine, with ports and a folder of their own."""

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

RAY = str(Path(sys.executable).parent / "ray")


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


ATTEMPTS = 3


class NodeEnded(Exception):
    """`ray start --block` came back."""


class RayCluster:
    """Running while the context is open.

    Args:
        nodes: for each the flags of its `ray start`; the first is the head.
    """

    def __init__(self, *nodes: Sequence[str]) -> None:
        self._nodes = nodes
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "RayCluster":
        # Ray gives a node's parts some seconds to start, which a busy machine may not have.
        for left in reversed(range(ATTEMPTS)):
            try:
                self._start()
                break
            except BaseException as error:
                self.__exit__()
                if not (left and isinstance(error, NodeEnded)):
                    raise
        return self

    def _start(self) -> None:
        self.temporary = Path("/tmp") / f"ray-{secrets.token_hex(4)}"  # Ray's socket paths must be short
        port, dashboard = free_ports(2)
        self.dashboard = f"http://127.0.0.1:{dashboard}"
        self._processes = []
        environment = {**os.environ, "RAY_prestart_worker_first_driver": "0", "RAY_USAGE_STATS_ENABLED": "0"}
        environment.pop("RAY_ADDRESS", None)
        head = ["--head", "--node-ip-address=127.0.0.1", f"--port={port}", f"--temp-dir={self.temporary}"]
        head += ["--include-dashboard=true", "--dashboard-host=127.0.0.1", f"--dashboard-port={dashboard}"]
        names = ("dashboard-agent-listen-port", "dashboard-agent-grpc-port")
        names += ("metrics-export-port", "runtime-env-agent-port")
        for number, own in enumerate(self._nodes):
            ports = [f"--{name}={port}" for name, port in zip(names, free_ports(len(names)), strict=True)]
            joins = [f"--address=127.0.0.1:{port}"] if number else head
            flags = [*joins, *ports, *(flag for flag in own if flag != "--head")]
            flags += ["--object-store-memory=200000000", "--block", "--disable-usage-stats"]
            self._processes.append(
                subprocess.Popen(
                    [RAY, "start", *flags],
                    env=environment,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            )
            self._wait_for_nodes(number + 1)

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                os.killpg(process.pid, signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
        shutil.rmtree(self.temporary, ignore_errors=True)

    def _wait_for_nodes(self, count: int) -> None:
        deadline = time.monotonic() + 300
        while True:
            if self._processes[-1].poll() is not None:
                raise NodeEnded
            assert time.monotonic() < deadline, "the cluster did not come up"
            try:
                with urllib.request.urlopen(f"{self.dashboard}/nodes?view=summary", timeout=60) as answer:
                    nodes = json.load(answer)["data"]["summary"]
                if sum(node["raylet"].get("state") == "ALIVE" for node in nodes) >= count:
                    return
            except (OSError, KeyError, ValueError):
                pass
            time.sleep(0.5)

    def is_running(self) -> bool:
        return all(process.poll() is None for process in self._processes)

    def files(self) -> Iterator[Path]:
        """What Ray has written."""
        return (path for path in self.temporary.rglob("*") if path.is_file() and not path.is_symlink())
