"""How the service stops: it answers what it has, and says why it takes no more."""

import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from ...refusals import assert_refusal
from ..conftest import WaitFor

Busy = tuple[Any, Future[httpx.Response], Path]


@pytest.fixture
def busy(serve: Callable[..., Any], tmp_path: Path, wait_for: WaitFor) -> Iterator[Busy]:
    """A service that is answering a request, the request, and the file that ends it."""
    server = serve("--workers", "1", "--deadline", "30", "--drain-seconds", "2", stub=True).when_ready()
    go = tmp_path / "go"
    body = {"items": [{"completion": f"wait for {go}", "reference": "42"}]}
    with ThreadPoolExecutor(1) as thread:
        request = thread.submit(httpx.post, server.url + "/v1/grade", json=body, timeout=60)
        wait_for(lambda: "math_reward_requests_in_flight 1.0" in server.client.get("/metrics").text)
        yield server, request, go


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_requests_under_way_are_answered_and_new_ones_told_why(
    busy: Busy, number: signal.Signals, wait_for: WaitFor, all_end: Any
):
    server, request, go = busy
    everything = server.everything()

    server.process.send_signal(number)
    wait_for(lambda: server.client.get("/readyz").status_code == 503)
    refused = server.client.post("/v1/grade", json={"items": [{"completion": "1", "reference": "1"}]})
    ready = server.client.get("/readyz")
    healthy = server.client.get("/healthz")
    go.touch()
    answered = request.result()

    assert (answered.status_code, answered.json()["results"][0]["verdict"]) == (200, "no_answer")
    assert refused.status_code == 503
    assert_refusal(refused.json()["detail"], "draining")
    assert refused.headers["Retry-After"] == "1"
    assert "draining" in ready.json()["detail"]
    assert healthy.status_code == 200
    assert server.process.wait(timeout=120) == 0
    assert all_end(everything)


def test_what_is_not_done_when_the_time_is_over_is_refused(busy: Busy):
    server, request, _ = busy

    begin = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    code = server.process.wait(timeout=120)
    refused = request.result()

    assert code == 0
    assert time.monotonic() - begin >= 2
    assert refused.status_code == 503
    assert_refusal(refused.json()["detail"], "--drain-seconds")


def test_a_second_signal_does_not_wait(busy: Busy, wait_for: WaitFor, all_end: Any):
    server, request, _ = busy
    everything = server.everything()

    server.process.send_signal(signal.SIGTERM)
    wait_for(lambda: server.client.get("/readyz").status_code == 503)
    server.process.send_signal(signal.SIGTERM)

    assert server.process.wait(timeout=120) == 0
    assert all_end(everything)
    assert request.result().status_code == 503
