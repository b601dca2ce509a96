"""Connections: thousands at once, heads without an end, and TLS with uvicorn's own options."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from ...certificates import write_certificate
from ...refusals import assert_refusal

GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
RIGHT = {"completion": r"\boxed{42}", "reference": "42"}


@pytest.fixture(scope="module")
def server(serve: Callable[..., Any]) -> Any:
    return serve("--workers", "1").when_ready()


@pytest.mark.parametrize(
    "pieces",
    [
        [GET, *[b"X-A: " + b"a" * 1000 + b"\r\n"] * 1000, b"\r\n"],
        [GET + b"X-A: " + b"a" * 1_000_000 + b"\r\n\r\n"],
        [b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"],
    ],
    ids=["many lines", "a long line", "a long address"],
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

    assert received == b"" or received.startswith(b"HTTP/1.1 400 ")
    assert server.client.get("/healthz").status_code == 200


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
