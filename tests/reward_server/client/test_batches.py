"""How items are put together in batches, as services see it."""

import asyncio

import pytest

from math_reward.client import Refused, Unavailable

from ...fake_reward_server import Answer, FakeRewardServer
from .asking import asking, body, outcomes, rewards, told


async def test_a_hundred_concurrent_callers_share_two_requests_and_each_gets_its_own_reward() -> None:
    with FakeRewardServer() as server:
        async with asking(server.url, batch_wait=1.0) as client:  # a slow machine has time to ask
            asked = await asyncio.gather(*(rewards(client, i) for i in range(100)))
            assert asked == [[i] for i in range(100)]
        assert [len(post.texts) for post in server.posts] == [64, 36]


async def test_items_that_come_while_a_request_is_under_way_share_the_next_one() -> None:
    with FakeRewardServer([Answer(delay=0.5)]) as server:
        async with asking(server.url, batch_wait=0.0, max_in_flight=1) as client:
            calls = [asyncio.create_task(rewards(client, 0))]
            while not server.posts:
                await asyncio.sleep(0.01)
            for i in range(1, 5):
                calls.append(asyncio.create_task(rewards(client, i)))
                await asyncio.sleep(0.01)
            await asyncio.gather(*calls)
        assert [post.texts for post in server.posts] == [["0"], ["1", "2", "3", "4"]]


@pytest.mark.parametrize("status", [413, 422])
async def test_a_batch_that_is_refused_is_halved_until_the_bad_item_is_alone(status: int) -> None:
    with FakeRewardServer(always=lambda post: Answer(status if "6" in post.texts else 200)) as server:
        async with asking(server.url, batch_size=8) as client:
            *good, bad, last = await outcomes(client, *range(8))
        assert sorted(len(post.texts) for post in server.posts) == [1, 1, 2, 2, 4, 4, 8]
    assert told([*good, last], others := [0, 1, 2, 3, 4, 5, 7]) == others
    assert isinstance(bad, Refused)


NOT_FINITE = Answer(body=body(reward=float("nan")))


@pytest.mark.parametrize("fault", [Answer(500), Answer(delay=1.0), Answer(drop=True), Answer(body={}), NOT_FINITE])
async def test_one_item_that_breaks_the_service_does_not_fail_its_neighbours(fault: Answer) -> None:
    with FakeRewardServer(always=lambda post: fault if "13" in post.texts else Answer()) as server:
        async with asking(server.url, deadline=1.5, timeout=0.2) as client:
            found = await outcomes(client, *range(16))
    bad = found.pop(13)
    assert isinstance(bad, Unavailable)
    assert told(found, others := [i for i in range(16) if i != 13]) == others


async def test_an_overloaded_service_gets_the_same_batch_again() -> None:
    with FakeRewardServer([Answer(503)] * 3) as server:
        async with asking(server.url) as client:
            assert await rewards(client, *range(50)) == list(range(50))
        assert [len(post.texts) for post in server.posts] == 4 * [50]


async def test_long_completions_go_in_batches_that_a_service_takes() -> None:
    """Each has 150,000 characters, and as many in its prompt."""
    with FakeRewardServer() as server:
        async with asking(server.url, batch_wait=0.5) as client:
            assert await rewards(client, *("0.5" + " " * 150_000 for _ in range(7))) == [0.5] * 7
    assert sorted(len(post.texts) for post in server.posts) == [1, 3, 3]


async def test_a_reward_model_gets_one_query_at_a_time_as_from_openrlhfs_own_client() -> None:
    with FakeRewardServer() as server:
        async with asking(server.url + "/get_reward") as client:
            assert await rewards(client, *range(9)) == list(range(9))
    assert [len(post.texts) for post in server.posts] == 9 * [1]
