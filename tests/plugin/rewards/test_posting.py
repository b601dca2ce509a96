"""One POST: connections, the way there, limits and secrets."""

import logging

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
