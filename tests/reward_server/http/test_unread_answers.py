"""Answers that nobody reads: they count as pending, and their connections are closed."""

import json
import socket
import time
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from ..conftest import WaitFor

MEBIBYTE = 2**20
RIGHT = {"completion": r"\boxed{42}", "reference": "42"}


@pytest.fixture(scope="module")
def server(serve: Callable[..., Any]) -> Any:
    """An answer has to be read within two seconds; there is room for one large body and its answer, and no more."""
    limits = ["--body-seconds", "2", "--max-pending-bytes", str(20 * MEBIBYTE), "--access-log"]
    return serve("--workers", "1", *limits).when_ready()


def connect(server: Any) -> socket.socket:
    """A connection whose client's side has hardly any room for what it does not read."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", server.port))
    return client


def is_open(server: Any, client: socket.socket) -> bool:
    port = client.getsockname()[1]
    return port in {one.raddr.port for one in psutil.Process(server.process.pid).net_connections() if one.raddr}


def test_an_answer_that_is_not_read_counts_as_pending_until_its_connection_is_closed(server: Any, wait_for: WaitFor):
    # The answer has the reference once more, and is larger than what the kernel keeps.
    body = json.dumps({"items": [{"completion": "1", "reference": "7" * 15 * MEBIBYTE}]}).encode()
    head = b"POST /v1/grade HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"

    def status() -> int:
        return server.client.post("/v1/grade", json={"items": [RIGHT]}).status_code

    with connect(server) as client:
        client.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        wait_for(lambda: status() == 429)
        wait_for(lambda: not is_open(server, client))
        assert status() == 200
    assert 'math_reward_requests_total{route="/v1/grade",status="408"} 1.0' in server.client.get("/metrics").text
    assert "math_reward_requests_in_flight 0.0" in server.client.get("/metrics").text
    assert not [line for line in server.log() if "Exception" in line or "Traceback" in line]


def test_a_client_that_reads_slowly_gets_its_whole_answer(server: Any):
    text = "7" * 15 * MEBIBYTE
    body = json.dumps({"items": [{"completion": "1", "reference": text}]}).encode()
    head = b"POST /v1/grade HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"

    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
        client.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        time.sleep(0.5)
        answer = b"".join(iter(lambda: client.recv(65_536), b""))

    (result,) = json.loads(answer.partition(b"\r\n\r\n")[2])["results"]
    assert result["reference"] == text


@pytest.mark.parametrize("path", [b"/metrics", b"/openapi.json", b"/"])
def test_what_anybody_may_ask_for_is_not_kept_for_ever_either(server: Any, path: bytes, wait_for: WaitFor):
    with connect(server) as client:
        client.settimeout(1)
        asked = b"GET %b HTTP/1.1\r\nHost: localhost\r\n\r\n" % path
        try:
            for _ in range(2000):  # Until nothing more is read of it either.
                client.sendall(asked)
        except (TimeoutError, ConnectionError):
            pass
        wait_for(lambda: not is_open(server, client))
    assert server.client.get("/healthz").status_code == 200
