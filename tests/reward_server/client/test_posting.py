"""The way to a service: connections, limits, certificates and secrets."""

import asyncio
import gzip
import json
import logging
import ssl
import time
from pathlib import Path
from typing import Any

import pytest

from math_reward.client import BadAnswer, Cause, Client, Item, Refused, Unavailable, posting

from ...certificates import write_certificate
from ...fake_reward_server import Answer, FakeRewardServer, Post, free_port, right_answer
from ...refusals import assert_refusal
from .asking import FAST, PATHS, asking, body, error_of, lines, outcomes, rewards, told


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize("path", PATHS)
async def test_a_redirect_is_followed_and_a_proxy_of_the_environment_is_not(
    path: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    with FakeRewardServer([Answer(status, headers={"Location": "/moved"})]) as server:
        async with asking(server.url + path, deadline=0) as client:
            assert await rewards(client, 0.5) == [0.5]
        assert [post.path for post in server.posts] == [path, "/moved"]


async def test_a_redirect_to_another_host_is_refused_and_sends_it_nothing() -> None:
    with FakeRewardServer() as other:
        address = other.url.replace("127.0.0.1", "localhost")
        with FakeRewardServer(always=lambda post: Answer(307, headers={"Location": address})) as server:
            async with asking(server.url, token="tell-nobody") as client:
                error = await error_of(client, 1)
        assert (len(server.posts), other.posts) == (1, [])
    assert (type(error), error.cause) == (Refused, Cause.PATH)
    assert_refusal(str(error), "127.0.0.1", "localhost")


async def test_a_circle_of_redirects_ends() -> None:
    with FakeRewardServer(always=lambda post: Answer(307, headers={"Location": post.path})) as server:
        async with asking(server.url, deadline=0) as client:
            error = await error_of(client, 1)
        assert len(server.posts) < 10
    assert isinstance(error, Refused)
    assert_refusal(str(error), "redirects")


# How long an answer may be


async def test_an_answer_without_end_is_none() -> None:
    endless = Answer(body=b" " * (21 * 2**20), headers={"Content-Length": str(10**12)})
    with FakeRewardServer([endless, endless]) as server:
        async with asking(server.url, deadline=0, timeout=10.0) as client:
            error = await error_of(client, 1)
        assert isinstance(error, BadAnswer)
        assert_refusal(str(error), "bytes")
        async with asking(server.url) as client:
            assert await rewards(client, 1) == [1.0]


@pytest.mark.parametrize(("items", "length"), [(1, 8 * 2**20), (64, 200_000)])
async def test_a_long_answer_of_a_service_that_gives_back_what_it_got_is_read(items: int, length: int) -> None:
    def answer(post: Post) -> Answer:
        results = right_answer(post)["results"]
        return Answer(body={"results": [result | {"reference": "x" * length} for result in results]})

    with FakeRewardServer(always=answer) as server:
        async with asking(server.url) as client:
            assert await rewards(client, *range(items)) == list(range(items))


async def test_an_answer_that_is_compressed_is_none_and_was_not_asked_for() -> None:
    packed = Answer(body=gzip.compress(json.dumps(body()).encode()), headers={"Content-Encoding": "gzip"})
    with FakeRewardServer(always=lambda post: packed) as server:
        async with asking(server.url, deadline=0) as client:
            error = await error_of(client, 1)
        assert [post.headers["Accept-Encoding"] for post in server.posts] == ["identity"]
    assert isinstance(error, BadAnswer)
    assert_refusal(str(error), "gzip")


async def test_no_more_requests_are_under_way_than_max_in_flight_and_their_connections_are_reused() -> None:
    with FakeRewardServer(always=lambda post: Answer(delay=0.02)) as server:
        async with asking(server.url, batch_size=1, max_in_flight=3) as client:
            assert await rewards(client, *range(30)) == list(range(30))
        assert len(server.posts) == 30
        assert server.most_at_once == 3
        assert server.connections == 3


@pytest.mark.parametrize("path", PATHS)
async def test_the_token_is_sent_and_neither_it_nor_an_item_is_ever_written_down(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    echo = {"detail": [{"input": "0.4711"}], "results": [{"reward": None}], "rewards": [None]}
    answers = [Answer(500, echo), Answer(drop=True), Answer(body=b"<html>"), Answer(body=echo), Answer(401, echo)]
    with FakeRewardServer(answers) as server:
        async with asking(server.url + path + "?key=secret", token="tell-nobody", batch_size=1) as client:
            error = await error_of(client, "0.4711", reference="the-reference")
        assert [post.headers["Authorization"] for post in server.posts] == 5 * ["Bearer tell-nobody"]
    assert len(lines(caplog)) == 1
    for text in [caplog.text, str(error), repr(error), repr(client.settings), repr(client.stats)]:
        assert "tell-nobody" not in text
        assert "0.4711" not in text
        assert "the-reference" not in text
    assert "secret" not in str(error)


async def test_a_busy_event_loop_costs_the_client_in_its_thread_no_attempt_and_no_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(posting, "CONNECT_TIMEOUT", 0.2)
    limits = FAST | {"batch_size": 2, "batch_wait": 1.0, "deadline": 0, "timeout": 0.5}
    with FakeRewardServer(always=lambda post: Answer(delay=0.05)) as server:
        client = Client(server.url, **limits)
        results = [asyncio.wrap_future(client.submit(Item(str(i), "1"))) for i in range(12)]
        for _ in range(3):
            await asyncio.sleep(0)
            time.sleep(0.6)  # as unpickling does in a rollout actor; longer than either limit
        assert told([await result for result in results], range(12)) == list(range(12))
        assert (client.stats.items, client.stats.retries, client.stats.failures) == (12, 0, 0)
        client.close()
    assert [len(post.texts) for post in server.posts] == [2] * 6


# Certificates


def own_pem(folder: Path, name: str) -> Path:
    """A new self-signed certificate for 127.0.0.1, with its key in the same file."""
    pem = folder / f"{name}.pem"
    pem.write_bytes(b"".join(path.read_bytes() for path in write_certificate(folder, name)))
    return pem


def https_server(certificate: Path) -> FakeRewardServer:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return FakeRewardServer(tls=context)


async def test_a_service_is_trusted_by_whatever_has_its_certificate_and_by_nothing_else(tmp_path: Path) -> None:
    own, other = own_pem(tmp_path, "own"), own_pem(tmp_path, "other")
    bundle = tmp_path / "bundle.pem"
    bundle.write_bytes(other.read_bytes() + own.read_bytes())
    with https_server(own) as server:
        for verify in (bundle, str(bundle), ssl.create_default_context(cafile=str(own))):
            async with asking(server.url, verify=verify) as client:
                assert await rewards(client, 1) == [1.0]
        server.posts.clear()
        for verify in (other, None):
            async with asking(server.url, verify=verify, deadline=100_000.0) as client:
                error = await error_of(client, 1)
            assert (type(error), error.cause) == (Refused, Cause.CERTIFICATE)
            assert error.cause.refuses_all
            assert_refusal(str(error), "verify=")
        async with asking(server.url.replace("https://", "http://"), deadline=0) as client:
            error = await error_of(client, 1)
        assert not server.posts
    assert isinstance(error, Unavailable)
    assert_refusal(str(error), "https://")


async def test_a_service_with_a_certificate_that_is_not_trusted_costs_no_item_of_another(tmp_path: Path) -> None:
    with https_server(own_pem(tmp_path, "own")) as server, FakeRewardServer() as healthy:
        async with asking(server.url, healthy.url, batch_size=1) as client:
            assert await rewards(client, *range(8)) == list(range(8))


async def test_a_redirect_may_lead_to_https_on_the_same_host_and_not_back(tmp_path: Path) -> None:
    own = own_pem(tmp_path, "own")
    with https_server(own) as safe, FakeRewardServer() as plain:

        async def redirected(source: FakeRewardServer, to: FakeRewardServer) -> list[Any]:
            source._answers.append(Answer(308, headers={"Location": f"{to.url}/v1/grade"}))
            async with asking(source.url, verify=own) as client:
                return await outcomes(client, 1)

        [graded] = await redirected(plain, safe)
        assert graded.reward == 1.0
        plain.posts.clear()
        [error] = await redirected(safe, plain)
        assert not plain.posts
    assert_refusal(str(error), safe.url, "http://127.0.0.1")
