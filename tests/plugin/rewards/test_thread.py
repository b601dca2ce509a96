"""The reward client in its thread: what a caller's busy event loop does to it."""

import asyncio
import time

import pytest

from openrlhf_gtpo.rewards import posting
from openrlhf_gtpo.rewards.client import RewardClientSettings, RewardError
from openrlhf_gtpo.rewards.thread import RewardThread

from .asking import ask
from .fake_reward_server import Answer, FakeRewardServer


async def test_a_busy_event_loop_costs_no_attempt_and_no_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posting, "CONNECT_TIMEOUT", 0.2)
    with FakeRewardServer(always=lambda post: Answer(delay=0.05)) as server:
        client = RewardThread(RewardClientSettings(urls=(server.url,), batch_size=2, deadline=0, timeout=0.5))
        rewards = [asyncio.ensure_future(client.reward(ask(i))) for i in range(12)]
        for _ in range(3):
            await asyncio.sleep(0)
            time.sleep(0.6)  # as unpickling does; longer than either limit
        assert [(await reward).reward for reward in rewards] == [float(i) for i in range(12)]
        assert (client.stats.items, client.stats.retries, client.stats.failures) == (12, 0, 0)
        await client.aclose()
    assert [len(post.texts) for post in server.posts] == [2] * 6


async def test_callers_that_still_wait_get_an_error_when_it_is_closed() -> None:
    with FakeRewardServer([Answer(delay=30)]) as server:
        client = RewardThread(RewardClientSettings(urls=(server.url,)))
        reward = asyncio.ensure_future(client.reward(ask(1)))
        while not server.posts:
            await asyncio.sleep(0.01)
        await client.aclose()
        with pytest.raises(RewardError, match="was closed while"):
            await reward
