"""Clients that hang up leave nothing behind that others would wait for."""

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any


def test_the_items_of_a_client_that_hung_up_leave_the_queue(
    serve: Callable[..., Any], tmp_path: Path, wait_for: Callable[[Callable[[], bool]], None]
):
    server = serve("--workers", "1", "--deadline", "30", stub=True).when_ready()
    go = tmp_path / "go"
    waits = {"completion": f"wait for {go}", "reference": "42"}
    body = json.dumps({"items": [waits] * 200}).encode()

    def metrics() -> str:
        return server.client.get("/metrics").text

    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
        head = "POST /v1/grade HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        wait_for(lambda: "math_reward_queued_items 0.0" not in metrics())
    wait_for(lambda: "math_reward_queued_items 0.0" in metrics())
    go.touch()
    right = server.client.post("/v1/grade", json={"items": [{"completion": r"\boxed{42}", "reference": "42"}]})

    assert right.json()["results"][0]["verdict"] == "correct"
    assert 'math_reward_requests_total{route="/v1/grade",status="499"} 1.0' in metrics()
    assert "math_reward_requests_in_flight 0.0" in metrics()
    assert not [line for line in server.log() if "Exception" in line or "Traceback" in line]
