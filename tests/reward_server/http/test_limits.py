"""What the service refuses for its own protection, and that it serves the others meanwhile."""

import json
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import httpx
import pytest

from ...refusals import assert_refusal

RIGHT = {"completion": r"\boxed{42}", "reference": "42"}


@pytest.fixture(scope="module")
def narrow_server(serve: Callable[..., Any]) -> Any:
    """One worker, four items may wait, a body must arrive within a second. Waits where a completion tells it to."""
    options = ["--workers", "1", "--deadline", "30", "--max-queued", "4", "--body-seconds", "1"]
    return serve(*options, stub=True).when_ready()


def test_a_full_queue_is_refused_with_the_time_to_wait_and_taken_when_it_is_empty(
    narrow_server: Any, tmp_path: Path, wait_for: Callable[[Callable[[], bool]], None]
):
    client = narrow_server.client
    go = tmp_path / "go"
    waits = {"completion": f"wait for {go}", "reference": "42"}
    with ThreadPoolExecutor(1) as thread:
        fills = thread.submit(httpx.post, narrow_server.url + "/v1/grade", json={"items": [waits] * 40})
        wait_for(lambda: "math_reward_queued_items 0.0" not in client.get("/metrics").text)

        refused = client.post("/v1/grade", json={"items": [RIGHT]})
        refused_too = client.post("/get_reward", json={"query": ["1"], "prompts": [""], "labels": ["1"]})
        healthy = client.get("/healthz")
        go.touch()
    accepted = client.post("/v1/grade", json={"items": [RIGHT]})

    assert refused.status_code == refused_too.status_code == 429
    assert_refusal(refused.json()["detail"], "items wait", "1 s")
    assert refused.headers["Retry-After"] == "1"
    assert healthy.status_code == 200
    assert fills.result().status_code == 200
    assert accepted.json()["results"][0]["verdict"] == "correct"


def test_bodies_that_are_too_big_together_are_refused_and_taken_when_there_is_room(
    serve: Callable[..., Any], tmp_path: Path, wait_for: Callable[[Callable[[], bool]], None]
):
    options = ["--workers", "1", "--deadline", "30", "--max-body-bytes", "4096", "--max-pending-bytes", "6000"]
    server = serve(*options, stub=True).when_ready()
    go = tmp_path / "go"

    def post(completion: str) -> httpx.Response:
        items = [{"completion": completion, "reference": ["42", "x" * 3000]}]
        return httpx.post(server.url + "/v1/grade", json={"items": items}, timeout=60)

    with ThreadPoolExecutor(2) as threads:
        fills = threads.submit(post, f"wait for {go}")
        wait_for((tmp_path / "go.waits").exists)
        refused = post(r"\boxed{42}")
        small = threads.submit(httpx.post, server.url + "/v1/grade", json={"items": [RIGHT]}, timeout=60)
        wait([small], timeout=0.5)  # A refusal would be there at once; the answer needs the worker.
        go.touch()
    accepted = post(r"\boxed{42}")

    assert refused.status_code == 429
    assert refused.headers["Retry-After"] == "1"
    assert_refusal(refused.json()["detail"], "6,000", "1 s")
    assert small.result().json()["results"][0]["verdict"] == "correct"
    assert fills.result().status_code == 200
    assert accepted.json()["results"][0]["verdict"] == "correct"


def test_a_body_that_drips_in_is_given_up_and_the_others_are_served_meanwhile(narrow_server: Any):
    with socket.create_connection(("127.0.0.1", narrow_server.port), timeout=60) as slow:
        slow.sendall(
            b"POST /v1/grade HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b'Content-Length: 1000\r\n\r\n{"items": '
        )
        served = narrow_server.client.post("/v1/grade", json={"items": [RIGHT]})
        answer = b""
        while part := slow.recv(4096):  # Until the service closes the connection.
            answer += part

    assert served.json()["results"][0]["verdict"] == "correct"
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 ")
    assert_refusal(json.loads(body)["detail"], "1 s")
