"""Whose turn it is: in order, over the services that are free, one request at a time after a failure."""

import asyncio
import math
import random

from math_reward.client.endpoints import Turns, backoff
from math_reward.client.protocol import Failure

A, B = "http://a/v1/grade", "http://b/v1/grade?key=secret"


def never() -> float:
    return math.inf


async def test_turns_go_to_the_least_busy_service_and_wait_for_each_other_in_order() -> None:
    turns = Turns([A, B], 3, wait_for_held=True)
    first, second, third = [await turns.take(never) for _ in range(3)]
    assert [one.url for one in (first, second, third)] == [A, B, A]
    order: list[int] = []

    async def wait(name: int) -> None:
        await turns.take(never)
        order.append(name)

    waiting = [asyncio.create_task(wait(name)) for name in range(3)]
    await asyncio.sleep(0)
    for endpoint in (first, second, third):
        turns.give_back(endpoint)
    await asyncio.gather(*waiting)
    assert order == [0, 1, 2]


async def test_after_a_failure_a_service_gets_one_request_at_a_time_until_one_succeeds() -> None:
    turns = Turns([A], 4, wait_for_held=True)
    loop = asyncio.get_running_loop()
    endpoint = await turns.take(never)
    endpoint.failed(Failure("is down"), loop.time(), loop.time(), longest=0.001)
    turns.give_back(endpoint)
    assert await turns.take(never) is endpoint  # after its pause
    other = asyncio.create_task(turns.take(never))
    await asyncio.sleep(0.05)
    assert not other.done()
    endpoint.succeeded(loop.time())
    turns.give_back(endpoint)
    assert await other is endpoint
    assert await turns.take(never) is endpoint


async def test_who_gives_up_or_leaves_takes_no_turn_with_him() -> None:
    turns = Turns([A], 1, wait_for_held=True)
    loop = asyncio.get_running_loop()
    endpoint = await turns.take(never)
    late = loop.time() + 0.01
    assert await turns.take(lambda: late) is None
    assert await turns.take(lambda: loop.time() - 1) is None
    leaver = asyncio.create_task(turns.take(never))
    await asyncio.sleep(0)
    turns.give_back(endpoint)  # to the leaver, who is cancelled before he can take it
    leaver.cancel()
    await asyncio.gather(leaver, return_exceptions=True)
    assert await turns.take(never) is endpoint


async def test_requests_that_were_open_together_count_as_one_failure() -> None:
    turns = Turns([A], 4, wait_for_held=True)
    endpoint = await turns.take(never)
    for _ in range(50):  # were each counted, the pause would be the longest
        endpoint.failed(Failure("is down"), sent_at=10.0, now=11.0, longest=1000.0)
    assert 11.0 < endpoint.held_until <= 11.25
    endpoint.failed(Failure("is busy", retry_after=7.0), sent_at=10.0, now=11.0, longest=1000.0)
    assert endpoint.held_until == 18.0


def test_pauses_double_up_to_the_longest_with_jitter_of_a_half() -> None:
    random.seed(0)
    for failures, longest in [(1, 0.25), (2, 0.5), (3, 1.0), (6, 8.0), (7, 10.0), (5000, 10.0)]:
        pauses = [backoff(failures, 10.0) for _ in range(200)]
        assert longest / 2 <= min(pauses) < longest * 0.6
        assert longest * 0.9 < max(pauses) <= longest


async def test_a_secret_of_the_url_is_in_no_message() -> None:
    turns = Turns([B], 1, wait_for_held=True)
    endpoint = await turns.take(never)
    assert (endpoint.url, endpoint.label) == (B, "http://b/v1/grade")
