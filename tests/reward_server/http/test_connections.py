"""Connections: thousands at once, heads without an end, and TLS with uvicorn's own options."""

import asyncio
import json
import re
import signal
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from ...certificates import write_certificate
from ...refusals import assert_refusal
from ..conftest import WaitFor

GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"


def everything(connection: socket.socket) -> bytes:
    """What comes until the service closes the connection."""
    received = b""
    while part := connection.recv(65_536):
        received += part
    return received


RIGHT = {"completion": r"\boxed{42}", "reference": "42"}


@pytest.fixture(scope="module")
def server(serve: Callable[..., Any]) -> Any:
    return serve("--workers", "1", "--access-log").when_ready()


@pytest.mark.parametrize(
    "pieces",
    [
        [GET, *[b"X-A: " + b"a" * 1000 + b"\r\n"] * 1000, b"\r\n"],
        [GET + b"X-A: " + b"a" * 1_000_000 + b"\r\n\r\n"],
        [GET + b"X-A: " + b"a" * 33_000 + b"\r\n\r\n"],
        [b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"],
    ],
    ids=["many lines", "a long line", "a line that comes at once", "a long address"],
)
def test_a_head_that_is_too_long_is_refused_and_the_connection_closed(server: Any, pieces: list[bytes]):
    received = b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
            while part := connection.recv(65_536):
                received += part
        except (BrokenPipeError, ConnectionResetError):
            pass  # A connection that is closed with something unread is reset, and its answer may be lost with it.

    assert received == b"" or received.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 431 "))
    assert server.client.get("/healthz").status_code == 200


def test_what_is_no_http_is_refused_with_an_id_a_line_of_the_log_and_a_count(server: Any, wait_for: WaitFor):
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        head, _, body = everything(connection).partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 400 ")
    assert json.loads(body)["status"] == 400
    (request_id,) = re.findall(rb"x-request-id: (\w+)", head.lower())
    wait_for(lambda: any(request_id.decode() in line for line in server.log()))
    assert 'math_reward_requests_total{route="other",status="400"}' in server.client.get("/metrics").text


def test_a_connection_without_the_token_ends_with_its_refusal(serve: Callable[..., Any]):
    """Else somebody could send for ever."""
    server = serve("--workers", "1", MATH_REWARD_TOKEN="a-token-for-tests")
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(b"POST /v1/grade HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
        answer = everything(connection)
    assert answer.startswith(b"HTTP/1.1 401 ")


LONG = {"items": [{"completion": "1", "reference": "x" * 900}] * 4000}
"""Its answer has more than a megabyte, of references."""


def asked(server: Any, body: Any) -> socket.socket:
    """A connection that has posted and reads nothing. Its own buffer is small, so that the answer waits."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(60)
    connection.connect(("127.0.0.1", server.port))
    content = json.dumps(body).encode()
    head = "POST /v1/grade HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: "
    connection.sendall(f"{head}{len(content)}\r\n\r\n".encode() + content)
    return connection


def test_an_answer_that_nobody_reads_counts_until_it_is_given_up(serve: Callable[..., Any], wait_for: WaitFor):
    options = ["--workers", "1", "--body-seconds", "4", "--max-pending-bytes", str(4 * 2**20)]
    server = serve(*options).when_ready()

    def metric(text: str) -> bool:
        return text in server.client.get("/metrics").text

    with asked(server, LONG):
        wait_for(lambda: metric("requests_in_flight 1.0") and metric("grading_seconds_count 4000.0"))
        refused = server.client.post("/v1/grade", json=LONG)
        wait_for(lambda: metric("requests_in_flight 0.0"))
    assert refused.status_code == 429
    assert server.client.post("/v1/grade", json=LONG).status_code == 200


def test_a_slow_reader_gets_its_answer_while_the_service_drains(serve: Callable[..., Any], wait_for: WaitFor):
    server = serve("--workers", "1", "--drain-seconds", "30").when_ready()
    with asked(server, LONG) as connection:
        wait_for(lambda: "grading_seconds_count 4000.0" in server.client.get("/metrics").text)
        server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: server.client.get("/readyz").status_code == 503)
        received = b""
        while part := connection.recv(65_536):
            received += part
            time.sleep(0.002)
    _, _, body = received.partition(b"\r\n\r\n")
    assert len(json.loads(body)["results"]) == 4000
    assert server.process.wait(timeout=60) == 0


async def test_two_thousand_connections_are_all_answered(server: Any):
    async def ask() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(GET + b"Connection: close\r\n\r\n")
        answer = await reader.read()
        writer.close()
        return answer

    answers = await asyncio.gather(*[ask() for _ in range(2000)])

    assert {answer[:13] for answer in answers} == {b"HTTP/1.1 200 "}


def test_with_a_certificate_it_serves_https(serve: Callable[..., Any], tmp_path: Path, in_process: Any):
    certfile, keyfile = write_certificate(tmp_path, "service")
    server = serve("--workers", "1", "--certfile", str(certfile), "--keyfile", str(keyfile))
    assert server.first_line.startswith("math-reward listening on https://127.0.0.1:")
    trusting = ssl.create_default_context(cafile=str(certfile))
    with httpx.Client(base_url=server.url, verify=trusting, timeout=60) as client:
        answer = client.post("/v1/grade", json={"items": [RIGHT]})
    assert answer.json()["results"][0]["verdict"] == "correct"

    for flags, named in ((["--certfile", "/none"], "/none"), (["--keyfile", str(keyfile)], "--certfile")):
        code, printed, said = in_process("serve", "--port", "0", *flags)
        assert (code, printed) == (2, "")
        assert_refusal(said.splitlines()[-1], named)
