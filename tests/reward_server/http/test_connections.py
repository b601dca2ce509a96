"""Connections that send no request, or one whose head has no end."""

import contextlib
import http.client
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from math_reward.http.event_loop import connections
from math_reward.http.event_loop.connections import WaitingConnections

from ...refusals import assert_refusal
from ..conftest import WaitFor

NOTHING = b""


class Connection:
    """Knows whether it was closed."""

    open = True

    def close(self) -> None:
        self.open = False


def test_who_takes_too_long_over_a_head_is_closed_and_nobody_else():
    waiting = WaitingConnections()
    slow, idle, busy, late = (Connection() for _ in range(4))
    for connection in (slow, idle, busy):
        waiting.expects_head(connection, now=0)
    for connection in (idle, busy):
        waiting.leaves(connection)
    waiting.is_idle(idle, now=5)
    waiting.expects_head(late, now=5)
    waiting.expects_head(slow, now=9)  # More of the head came; the time goes on.

    waiting.close_late(now=connections.HEAD_SECONDS + 1)
    assert (slow.open, idle.open, busy.open, late.open) == (False, True, True, True)
    waiting.close_late(now=connections.IDLE_SECONDS + 6)
    assert (idle.open, busy.open, late.open) == (False, True, False)
    assert len(waiting) == 0


def test_of_too_many_the_idle_ones_go_first_and_those_that_have_waited_longest(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connections, "MAX_WAITING", 3)
    waiting = WaitingConnections()
    heads = [Connection() for _ in range(2)]
    idle = [Connection() for _ in range(2)]
    for connection in heads:
        waiting.expects_head(connection, now=0)
    for connection in idle:
        waiting.is_idle(connection, now=1)
    assert [c.open for c in (*heads, *idle)] == [True, True, False, True]
    waiting.expects_head(Connection(), now=2)
    waiting.expects_head(Connection(), now=3)

    assert [c.open for c in (*heads, *idle)] == [False, True, False, False]


@pytest.fixture(scope="module")
def server(serve: Callable[..., Any]) -> Any:
    return serve("--workers", "1").when_ready()


def answer_to(server: Any, *pieces: bytes) -> bytes:
    """What comes back, until the service closes the connection."""
    received = b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
            while part := connection.recv(65_536):
                received += part
        except (BrokenPipeError, ConnectionResetError):
            pass
    return received


GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize(
    "pieces",
    [
        [GET, *[b"X-A: " + b"a" * 1000 + b"\r\n"] * 40, b"\r\n"],
        [GET + b"X-A: " + b"a" * 40_000 + b"\r\n\r\n"],
        [GET + b"A:b\r\n" * 10_000 + b"\r\n"],
        [b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"],
        [b"POST /v1/grade HTTP/1.1\r\nX-A: " + b"a" * 40_000 + b"\r\nContent-Length: 2\r\n\r\n{}" + GET + b"\r\n"],
    ],
    ids=["many lines", "a long line", "short lines", "a long address", "a body and another request behind it"],
)
def test_a_head_that_is_too_long_is_refused_and_the_connection_closed(server: Any, pieces: list[bytes]):
    received = answer_to(server, *pieces)

    # A connection that is closed with something unread is reset, and its answer may be lost with it.
    assert received == NOTHING or received.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
    assert received.count(b"HTTP/1.1") <= 1
    assert server.client.get("/healthz").status_code == 200
    assert not [line for line in server.log() if "Traceback" in line]


def test_a_body_behind_a_head_does_not_count_however_they_come(server: Any):
    body = b'{"items": []' + b" " * 200_000 + b"}"
    head = b"POST /v1/grade HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
    request = head + b"Content-Length: %d\r\n\r\n" % len(body) + body

    for size in (len(request), 50_000, 100):
        pieces = [request[begin : begin + size] for begin in range(0, len(request), size)]
        assert answer_to(server, *pieces).endswith(b'{"results": []}')


def test_a_head_within_the_limit_is_answered_whole_or_in_pieces(server: Any):
    lines = [b"X-A: " + b"a" * 1000 + b"\r\n"] * 25

    for pieces in (
        [GET + b"".join(lines) + b"Connection: close\r\n\r\n"],
        [GET, *lines, b"Connection: close\r\n\r\n"],
    ):
        assert answer_to(server, *pieces).startswith(b"HTTP/1.1 200 ")


def test_a_connection_that_has_had_its_answers_can_be_used_again(server: Any):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    sockets = set()
    for _ in range(50):
        connection.request("GET", "/healthz", headers={"X-A": "a" * 1000})
        sockets.add(connection.sock)
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, b'{"status":"ok"}')
    connection.close()

    assert len(sockets) == 1


def is_closed(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def test_with_few_open_files_the_service_goes_on_and_says_little(serve: Callable[..., Any], wait_for: WaitFor):
    small = serve("--workers", "1", ulimit="-n 64").when_ready()
    clients = [socket.create_connection(("127.0.0.1", small.port), timeout=60) for _ in range(100)]
    try:
        for client in clients:
            with contextlib.suppress(OSError):  # It may be closed already.
                client.sendall(GET)
        # All but a third of the 64 - 40 - 4 that have room are closed again. Before, a new one may be.
        wait_for(lambda: sum(map(is_closed, clients)) >= 100 - 20 // 3)
        verdicts = set()
        for _ in range(20):
            body = {"items": [{"completion": "4", "reference": "4"}]}
            answer = httpx.post(f"{small.url}/v1/grade", json=body, timeout=60)
            verdicts.add(answer.json()["results"][0]["verdict"])
    finally:
        for client in clients:
            client.close()

    assert verdicts == {"correct"}
    assert not [line for line in small.log() if "Traceback" in line]
    assert len(small.log()) < 10


def test_with_too_few_it_does_not_start_and_says_how_many_it_needs():
    command = [sys.executable, "-m", "math_reward", "serve", "--port", "0", "--workers", "8"]
    ended = subprocess.run(
        ["bash", "-c", 'ulimit -n 64 && exec "$@"', "-", *command], capture_output=True, text=True, timeout=120
    )

    assert ended.returncode == 2
    assert_refusal(ended.stderr.splitlines()[-1], "64", "81", "ulimit -n", "--workers")
