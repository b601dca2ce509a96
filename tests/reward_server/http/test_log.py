"""The log never holds up the service."""

import signal
from collections.abc import Callable
from typing import Any

from math_reward.http.log import ROOM_CHARACTERS

RIGHT = {"completion": r"\boxed{42}", "reference": "42"}


def test_where_nobody_reads_standard_error_requests_are_answered_and_lines_dropped_and_counted(
    serve: Callable[..., Any],
):
    """A pipe holds 64 KiB, and a line of the log here has about 10 KB."""
    server = serve("--workers", "1", "--access-log", unread=True).when_ready()
    for _ in range(ROOM_CHARACTERS // 10_000 + 40):
        assert server.client.get("/" + "x" * 10_000).status_code == 404

    assert server.client.post("/v1/grade", json={"items": [RIGHT]}).json()["results"][0]["reward"] == 1
    assert "math_reward_log_lines_dropped_total 0.0" not in server.client.get("/metrics").text
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(timeout=60) == 0


def test_what_is_logged_before_the_end_is_written(serve: Callable[..., Any]):
    server = serve("--workers", "1", "--access-log").when_ready()
    server.client.get("/last")
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(timeout=60) == 0
    assert '"path": "/last"' in server.log()[-1]
