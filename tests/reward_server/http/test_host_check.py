"""A service without a token answers to no name that a page of another site can have."""

import json
import socket
from collections.abc import Callable
from typing import Any

import pytest

from math_reward.http.middleware.host_check import is_own_name

from ...refusals import assert_refusal

TOKEN = "a-token-for-tests"


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:8000", "127.0.0.1", "10.1.2.3:80", "[::1]:8000", "[::1]", "localhost:8000", "LOCALHOST",
        "localhost.", "grader.localhost:1", "reward:8000", "Rewards.Example.org:8000", "rewards.example.org.", "",
    ],
)  # fmt: skip
def test_addresses_names_without_a_dot_and_those_that_are_named_are_its_own(host: str):
    assert is_own_name(host.encode(), frozenset({"rewards.example.org"}))


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:8000", "127.0.0.1.evil.example", "localhost.evil.example", "1.2.3", "1.2.3.4.5",
        "evil.rewards.example.org", "xlocalhost.evil", "127.0.0.1@evil.example", "[::1].evil.example", "\xff.example",
    ],
)  # fmt: skip
def test_no_other_is(host: str):
    assert not is_own_name(host.encode("latin-1"), frozenset({"rewards.example.org"}))


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/recent"), ("POST", "/v1/grade"), ("POST", "/v1/explain")])
def test_a_rebound_name_reads_nothing_where_there_is_no_token(serve: Callable[..., Any], method: str, path: str):
    open_server = serve("--workers", "1", "--allowed-hosts", "rewards.example.org, other.example.org")
    guarded_server = serve("--workers", "1", MATH_REWARD_TOKEN=TOKEN)

    def status(server: Any, host: str, **headers: str) -> int:
        return server.client.request(method, path, json={}, headers={"Host": host, **headers}).status_code

    assert status(open_server, "evil.example") == 421
    assert status(open_server, "other.example.org") in (200, 422)
    assert status(open_server, f"127.0.0.1:{open_server.port}") in (200, 422)
    # The token is what another site's page does not have.
    assert status(guarded_server, "evil.example", Authorization=f"Bearer {TOKEN}") in (200, 422)


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/recent"), ("POST", "/v1/grade"), ("GET", "/healthz")])
@pytest.mark.parametrize("environment", [{}, {"MATH_REWARD_TOKEN": TOKEN}], ids=["open", "guarded"])
def test_two_host_headers_are_refused(serve: Callable[..., Any], method: str, path: str, environment: dict[str, str]):
    server = serve("--workers", "1", **environment)
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: evil.example\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    )

    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:  # httpx sends no such head.
        client.sendall(head.encode())
        answer = b"".join(iter(lambda: client.recv(4096), b""))

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert_refusal(json.loads(answer.partition(b"\r\n\r\n")[2])["detail"], "Host")
