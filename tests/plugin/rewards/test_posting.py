"""One POST: connections, the way there, limits and secrets."""

import asyncio
import contextlib
import json
import logging
import select
import socket

import pytest

from openrlhf_gtpo.rewards import posting

from .asking import ask, error_of, lines, outcomes, result, reward_client
from .fake_reward_server import Answer, FakeRewardServer, free_port


async def test_no_more_requests_are_under_way_than_max_in_flight_and_their_connections_are_reused():
    with FakeRewardServer(always=lambda post: Answer(delay=0.02)) as server:
        async with reward_client(server.url, batch_size=1, max_in_flight=3) as client:
            got = await outcomes(client, *(ask(i) for i in range(30)))
        assert [reward.reward for reward in got] == [float(i) for i in range(30)]
        assert len(server.posts) == 30
        assert server.most_at_once == 3
        assert server.connections == 3


async def test_an_endless_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(posting, "MAX_ANSWER_BYTES", 2**20)
    with FakeRewardServer([Answer(body=b" " * 3 * 2**20)]) as server:
        async with reward_client(server.url, deadline=0) as client:
            assert "more than 1 MiB" in str(await error_of(client, ask(1)))


async def test_a_redirect_is_followed_as_openrlhfs_client_does():
    with FakeRewardServer([Answer(307, headers={"Location": "/moved"})]) as server:
        async with reward_client(server.url + "/get_reward") as client:
            assert (await client.reward(ask("0.5"))).reward == 0.5
        assert [post.path for post in server.posts] == ["/get_reward", "/moved"]


async def test_a_proxy_of_the_environment_does_not_get_between(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    with FakeRewardServer() as server:
        async with reward_client(server.url, deadline=0) as client:
            assert (await client.reward(ask("0.5"))).reward == 0.5


async def test_the_token_is_sent_and_neither_it_nor_a_completion_is_ever_written_down(
    caplog: pytest.LogCaptureFixture,
):
    caplog.set_level(logging.DEBUG)
    answers = [Answer(500), Answer(drop=True), Answer(body=b"<html>"), Answer(body=result(reward=None)), Answer(401)]
    with FakeRewardServer(answers) as server:
        async with reward_client(server.url, token="tell-nobody", batch_size=1) as client:
            error = await error_of(client, ask("0.4711", reference="the-reference"))
        assert [post.headers["Authorization"] for post in server.posts] == 5 * ["Bearer tell-nobody"]
    assert len(lines(caplog)) == 1
    for text in [caplog.text, str(error), repr(error), repr(client.settings), repr(client.stats)]:
        assert "tell-nobody" not in text
        assert "0.4711" not in text
        assert "the-reference" not in text


async def test_no_authorization_is_sent_without_a_token():
    with FakeRewardServer() as server:
        async with reward_client(server.url) as client:
            await client.reward(ask(1))
        assert "Authorization" not in server.posts[0].headers


async def test_a_connection_that_comes_too_late_is_tried_again_even_by_a_request_that_is_sent_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(posting, "CONNECT_TIMEOUT", 0.5)
    with socket.socket() as listener, contextlib.ExitStack() as waiting:
        listener.bind(("127.0.0.1", 0))
        listener.settimeout(10)
        listener.listen(0)  # the kernel leaves the attempts unanswered that do not fit
        for _ in range(2):
            one = waiting.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(listener.getsockname())

        def answer() -> None:
            body = json.dumps(result()).encode()
            while True:
                connection, _ = listener.accept()
                if select.select([connection], [], [], 0.2)[0] and connection.recv(65536):
                    break  # those that fill the queue say nothing
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            connection.close()

        async with reward_client(f"http://127.0.0.1:{listener.getsockname()[1]}", deadline=0) as client:
            reward = asyncio.ensure_future(client.reward(ask(1)))
            await asyncio.sleep(0.25)  # the kernel repeats the first attempt a second after it, so too late
            await asyncio.to_thread(answer)
            assert (await reward).reward == 1.0
            assert client.stats.retries == 0
