"""The log never holds up the service."""

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from math_reward.http import log

from ...fake_reward_server import free_port
from ..conftest import WaitFor

RIGHT = {"completion": r"\boxed{42}", "reference": "42"}


def test_where_nobody_reads_standard_error_requests_are_answered_and_lines_dropped_and_counted(
    serve: Callable[..., Any],
):
    """A pipe holds 64 KiB, and a line of the log here has about 10 KB."""
    server = serve("--workers", "1", "--access-log", stderr=subprocess.PIPE).when_ready()
    for _ in range(log.ROOM_CHARACTERS // 10_000 + 40):
        assert server.client.get("/" + "x" * 10_000).status_code == 404

    assert server.client.post("/v1/grade", json={"items": [RIGHT]}).json()["results"][0]["reward"] == 1
    assert "math_reward_log_lines_dropped_total 0.0" not in server.client.get("/metrics").text
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(timeout=60) == 0


def test_where_the_disk_of_all_that_it_writes_is_full_requests_are_answered_and_lines_counted(wait_for: WaitFor):
    url = f"http://127.0.0.1:{free_port()}"
    with open("/dev/full", "w") as full:
        serve = [sys.executable, "-m", "math_reward", "serve", "--workers", "1", "--port", url.rpartition(":")[2]]
        server = subprocess.Popen(serve, stdout=full, stderr=full)

    def text(path: str) -> str:
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(url + path).raise_for_status().text
        return ""

    try:
        wait_for(lambda: text("/readyz") != "")
        answer = httpx.post(f"{url}/v1/grade", json={"items": [RIGHT]}, timeout=60)
        assert answer.json()["results"][0]["reward"] == 1
        wait_for(lambda: re.search(r"math_reward_log_lines_dropped_total [1-9]", text("/metrics")) is not None)
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=60) == 0
    finally:
        server.kill()


def test_a_line_is_written_before_another_comes(serve: Callable[..., Any], wait_for: WaitFor):
    server = serve("--workers", "1", "--access-log").when_ready()
    server.client.get("/alone")
    wait_for(lambda: '"path": "/alone"' in server.log()[-1])


def test_the_log_says_how_many_lines_it_dropped(monkeypatch: pytest.MonkeyPatch, wait_for: WaitFor):
    reading, writing = os.pipe()
    monkeypatch.setattr(log, "STANDARD_ERROR", writing)
    lines = log.Log()
    lines.write("x" * log.ROOM_CHARACTERS)  # of which a pipe holds a part
    wait_for(lambda: select.select([reading], [], [], 0)[0] != [])
    for line in ("y" * log.ROOM_CHARACTERS, "dropped", "dropped too"):
        lines.write(line)
    with open(reading, encoding="utf-8") as pipe:
        pipe.readline()
        pipe.readline()
        assert pipe.readline() == "2 lines of the log were dropped: nobody read standard error.\n"
    assert lines.dropped == 2


def test_what_is_logged_before_the_end_is_written(serve: Callable[..., Any]):
    server = serve("--workers", "1", "--access-log").when_ready()
    server.client.get("/last")
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(timeout=60) == 0
    assert '"path": "/last"' in server.log()[-1]
