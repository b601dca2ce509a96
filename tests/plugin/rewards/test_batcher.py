"""How completions are put together in batches: in the queue itself, and as servers see it."""

import asyncio

import pytest

from openrlhf_gtpo.rewards.batcher import Batcher, Item, limit_to_half
from openrlhf_gtpo.rewards.client import RewardError

from .asking import ask, outcomes, reward_client
from .fake_reward_server import Answer, FakeRewardServer

# The queue itself; times are made up


def an_item(text: object, now: float = 0.0) -> Item:
    return Item(ask(text), now, asyncio.get_running_loop().create_future())


def texts(batch: list[Item]) -> list[str]:
    return [item.request.completion for item in batch]


async def test_a_batch_that_is_not_full_waits_for_others_from_its_first_items_time():
    queue = Batcher(batch_size=3, batch_wait=5.0)
    for now in (100.0, 101.0):
        queue.add(an_item(now, now))
    assert queue.due_at() == 105.0
    queue.add(an_item("third", 102.0))
    assert queue.due_at() < 100.0, "full: at once"


async def test_for_a_url_that_takes_single_items_every_item_is_due_at_once():
    queue = Batcher(batch_size=3, batch_wait=5.0)
    queue.add(an_item("a", 100.0))
    assert queue.due_at(single=True) < 100.0
    queue.add(an_item("b", 100.0))
    assert texts(queue.take(single=True)) == ["a"]
    assert len(queue) == 1


async def test_batches_are_cut_in_order_and_what_comes_back_goes_first():
    queue = Batcher(batch_size=3, batch_wait=0.0)
    for i in range(5):
        queue.add(an_item(i))
    first = queue.take()
    assert texts(first) == ["0", "1", "2"]
    queue.put_back(first)
    assert [texts(queue.take()), texts(queue.take())] == [["0", "1", "2"], ["3", "4"]]
    assert queue.take() == []


@pytest.mark.parametrize("size", range(2, 40))
async def test_halving_leaves_every_item_alone_after_few_rounds_and_loses_none(size: int):
    """A batch always fails: after at most log2(size) + 1 rounds each item has been sent alone."""
    queue = Batcher(batch_size=64, batch_wait=0.0)
    for i in range(size):
        queue.add(an_item(i))
    alone: list[str] = []
    rounds = 0
    while queue:
        rounds += 1
        batches = []
        while queue:
            batches.append(queue.take())
        for batch in reversed(batches):
            if len(batch) == 1:
                alone += texts(batch)
            else:
                limit_to_half(batch)
                queue.put_back(batch)
    assert sorted(alone, key=int) == [str(i) for i in range(size)]
    assert rounds <= size.bit_length() + 1


async def test_an_item_whose_caller_left_is_in_no_batch_and_takes_nobodys_place():
    queue = Batcher(batch_size=2, batch_wait=0.0)
    items = [an_item(i) for i in range(4)]
    for item in items:
        queue.add(item)
    items[1].future.cancel()
    assert texts(queue.take()) == ["0", "2"]


# As servers see it


async def test_a_hundred_concurrent_callers_share_two_posts_and_each_gets_its_own_reward():
    with FakeRewardServer() as server:
        async with reward_client(server.url, batch_wait=1.0) as client:  # a slow machine has time to ask
            got = await outcomes(client, *(ask(i) for i in range(100)))
        assert [reward.reward for reward in got] == [float(i) for i in range(100)]
        assert [len(post.texts) for post in server.posts] == [64, 36]


async def test_a_later_caller_joins_a_batch_that_still_waits():
    with FakeRewardServer() as server:
        async with reward_client(server.url, batch_wait=0.5) as client:
            first = asyncio.create_task(client.reward(ask(1)))
            await asyncio.sleep(0)
            second = asyncio.create_task(client.reward(ask(2)))
            assert ((await first).reward, (await second).reward) == (1.0, 2.0)
        assert [post.texts for post in server.posts] == [["1", "2"]]


@pytest.mark.parametrize("status", [413, 422])
async def test_one_refused_item_does_not_fail_its_neighbours(status: int):
    with FakeRewardServer(always=lambda post: Answer(status if "13" in post.texts else 200)) as server:
        async with reward_client(server.url) as client:
            got = await outcomes(client, *(ask(i) for i in range(40)))
    bad = got.pop(13)
    assert isinstance(bad, RewardError)
    assert bad.permanent
    assert [reward.reward for reward in got] == [float(i) for i in range(40) if i != 13]


@pytest.mark.parametrize("fault", [Answer(500), Answer(delay=1.0), Answer(drop=True), Answer(body={})])
async def test_one_item_that_breaks_the_server_does_not_fail_its_neighbours(fault: Answer):
    with FakeRewardServer(always=lambda post: fault if "13" in post.texts else Answer()) as server:
        async with reward_client(server.url, deadline=3.0, timeout=0.2) as client:
            got = await outcomes(client, *(ask(i) for i in range(16)))
    bad = got.pop(13)
    assert isinstance(bad, RewardError)
    assert not bad.permanent
    assert bad.attempts > 4
    assert [reward.reward for reward in got] == [float(i) for i in range(16) if i != 13]


async def test_a_batch_that_failed_together_is_asked_again_together():
    with FakeRewardServer([Answer(503)] * 3) as server:
        # A full batch goes at once; however slow the machine is, none goes before all have asked.
        async with reward_client(server.url, batch_size=50, batch_wait=15.0) as client:
            got = await outcomes(client, *(ask(i) for i in range(50)))
        assert [reward.reward for reward in got] == [float(i) for i in range(50)]
        assert [len(post.texts) for post in server.posts] == 4 * [50]


async def test_a_caller_cancelled_before_its_batch_is_sent_is_not_sent():
    with FakeRewardServer() as server:
        async with reward_client(server.url, batch_wait=0.1) as client:
            calls = [asyncio.create_task(client.reward(ask(i))) for i in range(3)]
            await asyncio.sleep(0)
            calls[1].cancel()
            await asyncio.gather(*calls, return_exceptions=True)
        assert [post.texts for post in server.posts] == [["0", "2"]]
