"""What is asked again, deadlines, services that come and go, callers that leave: real servers on real sockets, in both
protocols."""

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from math_reward.client import AsyncClient, Cause, ClientClosed, Refused, Unavailable, endpoints

from ... import fake_reward_server
from ...fake_reward_server import Answer, FakeRewardServer, free_port
from ...refusals import assert_refusal
from .asking import FAST, PATHS, asking, body, error_of, item, lines, outcomes, rewards, told

# What is asked again, and what is not


@pytest.mark.parametrize(
    "answer",
    [Answer(500), Answer(502), Answer(503), Answer(408), Answer(429), Answer(delay=1.0), Answer(drop=True)],
    ids=["500", "502", "503", "408", "429", "timeout", "hang-up"],
)
@pytest.mark.parametrize("path", PATHS)
async def test_a_transient_failure_is_asked_again(answer: Answer, path: str) -> None:
    with FakeRewardServer([answer, answer]) as server:
        async with asking(server.url + path, timeout=0.5 if answer.delay else 60.0) as client:
            assert await rewards(client, 0.5) == [0.5]
        assert len(server.posts) >= 3
        assert client.stats.retries >= 2


CAUSES = {401: Cause.TOKEN, 403: Cause.TOKEN, 404: Cause.PATH, 405: Cause.PATH}


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 413, 422])
@pytest.mark.parametrize("path", PATHS)
async def test_a_refusal_is_not_asked_again(status: int, path: str) -> None:
    with FakeRewardServer(always=lambda post: Answer(status, {"detail": "Item 0 is odd."})) as server:
        async with asking(server.url + path) as client:
            error = await error_of(client, 1)
        assert len(server.posts) == 1
    assert isinstance(error, Refused)
    assert_refusal(str(error), "Item 0 is odd;")
    assert error.cause is CAUSES.get(status, Cause.ITEM)
    assert error.cause.refuses_all == (status in CAUSES)
    assert server.url + path in str(error)
    assert str(status) in str(error)
    assert ("MATH_REWARD_TOKEN" in str(error)) == (status in (401, 403))


@pytest.mark.parametrize(
    ("header", "least"), [("1", 0.9), *((one, 0.0) for one in ("-5", "nan", "Wed, 21 Oct 2015 07:28:00 GMT"))]
)
async def test_a_service_that_says_when_to_come_back_is_left_alone_until_then(header: str, least: float) -> None:
    with FakeRewardServer([Answer(503, headers={"Retry-After": header})]) as server:
        async with asking(server.url) as client:
            assert await asyncio.wait_for(rewards(client, 0.5), 30) == [0.5]
        first, second = server.posts
    assert second.at - first.at >= least


async def test_a_service_that_asks_for_too_long_a_pause_is_asked_again_once_a_deadline_is_over() -> None:
    with FakeRewardServer([Answer(503, headers={"Retry-After": "1000000"})]) as server:
        async with asking(server.url, deadline=0.5) as client:
            assert "503" in str(await error_of(client, 1))
            assert await rewards(client, 0.5) == [0.5]


async def test_a_client_that_waits_for_a_service_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, timers = asyncio.get_running_loop(), []

    def call_at(when: float, callback: Callable[..., Any], *args: Any, **context: Any) -> asyncio.TimerHandle:
        timers.append(when)
        return plain_call_at(when, callback, *args, **context)

    plain_call_at = loop.call_at
    monkeypatch.setattr(loop, "call_at", call_at)
    with FakeRewardServer([Answer(503, headers={"Retry-After": "1"})]) as server:
        async with asking(server.url, batch_size=1) as client:
            assert await rewards(client, 1, 2, 3) == [1, 2, 3]
    assert len(timers) < 40


# The deadline


async def test_a_deadline_of_zero_is_a_single_attempt() -> None:
    with FakeRewardServer(always=lambda post: Answer(503)) as server:
        async with asking(server.url, deadline=0.0) as client:
            error = await error_of(client, 1)
        assert len(server.posts) == 1
    assert (type(error), error.cause) == (Unavailable, Cause.UNAVAILABLE)
    assert "503" in str(error)


async def test_a_service_that_was_never_there_is_an_error_at_the_deadline() -> None:
    url = f"http://127.0.0.1:{free_port()}/v1/grade"
    async with asking(url, deadline=0.5) as client:
        error = await error_of(client, 1)
    assert url in str(error)
    found = re.search(r"the last of (\d+) attempts in ([\d.]+) s", str(error))
    assert found is not None
    assert int(found[1]) > 1
    assert float(found[2]) >= 0.5
    assert client.stats.failures == 1


async def test_an_item_that_only_queues_is_not_given_up_while_others_get_results() -> None:
    with FakeRewardServer(always=lambda post: Answer(delay=0.3)) as server:
        async with asking(server.url, deadline=1.5, batch_size=1, max_in_flight=1) as client:  # 7 of them take 2.1 s
            assert await rewards(client, *range(7)) == list(range(7))
        assert len(server.posts) == 7


async def test_an_item_that_queues_behind_a_service_that_hangs_is_given_up_too() -> None:
    with FakeRewardServer(always=lambda post: Answer(delay=60.0)) as server:
        async with asking(server.url, deadline=0.5, batch_size=1, max_in_flight=1) as client:
            errors = await outcomes(client, *range(3))
        assert len(server.posts) == 1
    assert [type(error) for error in errors] == [Unavailable] * 3
    assert ["was never sent" in str(error) for error in errors] == [False, True, True]


async def test_an_item_is_given_up_at_its_deadline_while_the_request_of_another_is_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(endpoints, "FIRST_PAUSE", 600.0)
    results = body()["results"] + body(verdict="error")["results"]
    with FakeRewardServer([Answer(body={"results": results})], always=lambda post: Answer(delay=60.0)) as server:
        async with asking(server.url, deadline=1.5, batch_size=2, max_in_flight=1, max_backoff=600.0) as client:
            first = asyncio.ensure_future(outcomes(client, 1, 2))
            await asyncio.sleep(1.2)
            second = asyncio.ensure_future(outcomes(client, 3))
            assert isinstance((await first)[1], Unavailable)
            assert not second.done(), "its deadline is 1.2 s later"
            second.cancel()


# Several services, and services that come and go


async def test_a_dead_service_is_failed_over_without_waiting_for_its_backoff(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(endpoints, "FIRST_PAUSE", 600.0)
    dead = f"http://127.0.0.1:{free_port()}/v1/grade"
    with FakeRewardServer() as healthy:
        async with asking(dead, healthy.url, batch_size=4, max_backoff=600.0) as client:
            assert await asyncio.wait_for(rewards(client, *range(32)), 30) == list(range(32))
    assert client.stats.failovers >= 4
    assert client.stats.failures == 0
    [line] = lines(caplog)
    assert dead in line


@pytest.mark.parametrize("status", [503, 401])
async def test_a_service_that_is_back_gets_its_share_again(status: int) -> None:
    with FakeRewardServer([Answer(status)] * 3) as flaky, FakeRewardServer() as healthy:
        async with asking(flaky.url, healthy.url, batch_size=1) as client:

            async def until_it_is_back() -> None:
                while len(flaky.posts) < 4:  # three refusals and an answer
                    assert await rewards(client, 1) == [1.0]

            await asyncio.wait_for(until_it_is_back(), 30)
            before = len(flaky.posts), len(healthy.posts)
            for i in range(40):
                assert await rewards(client, i) == [i]
        assert [len(flaky.posts) - before[0], len(healthy.posts) - before[1]] == [20, 20]


ELSEWHERE = Answer(307, headers={"Location": "http://localhost/v1/grade"})


@pytest.mark.parametrize(("deadline", "batch_size"), [(0.0, 1), (120.0, 8)])
@pytest.mark.parametrize("answer", [*(Answer(status) for status in (400, 401, 404, 422)), ELSEWHERE])
@pytest.mark.parametrize("path", PATHS)
async def test_what_one_service_refuses_another_grades_and_the_log_names_the_first(
    answer: Answer, path: str, deadline: float, batch_size: int, caplog: pytest.LogCaptureFixture
) -> None:
    with FakeRewardServer(always=lambda post: answer) as refusing, FakeRewardServer() as healthy:
        limits = {"deadline": deadline, "batch_size": batch_size}
        async with asking(refusing.url + path, healthy.url + path, **limits) as client:
            assert await asyncio.wait_for(rewards(client, *range(64)), 30) == list(range(64))
    assert (client.stats.items, client.stats.failures) == (64, 0)
    if batch_size == 1 or answer.status != 422:  # a batch may have found its way before any item is alone
        [line] = lines(caplog)
        assert_refusal(line, refusing.url, "localhost" if answer is ELSEWHERE else f"HTTP {answer.status}")


async def test_a_service_that_refuses_everything_is_asked_now_and_then_and_not_for_every_item() -> None:
    with FakeRewardServer(always=lambda post: Answer(401)) as refusing, FakeRewardServer([Answer(401)]) as healthy:
        async with asking(refusing.url, healthy.url, batch_size=1, max_backoff=10.0) as client:
            assert isinstance(await error_of(client, 0), Refused)
            for i in range(200):
                assert await rewards(client, i) == [i]
    assert 1 <= len(refusing.posts) <= 8


async def test_what_one_service_refuses_goes_to_another_that_is_busy_too() -> None:
    busy = FakeRewardServer(always=lambda post: Answer(delay=1.0))
    with FakeRewardServer(always=lambda post: Answer(400)) as refusing, busy:
        async with asking(refusing.url, busy.url, batch_size=1) as client:
            assert await rewards(client, 1, 2) == [1, 2]
    assert busy.most_at_once == 2


async def test_when_every_service_refuses_the_error_has_the_sentence_of_each_and_comes_at_once() -> None:
    answers = (Answer(401, {"detail": "Who are you?"}), Answer(404, {"detail": "Not here."}))
    first, second = (FakeRewardServer(always=lambda post, answer=answer: answer) for answer in answers)
    with first, second:
        async with asking(first.url, second.url, batch_size=4, max_backoff=60.0) as client:
            errors = await asyncio.wait_for(outcomes(client, *range(64)), 30)
    for error in errors:
        assert isinstance(error, Refused)
        assert error.cause.refuses_all
        assert_refusal(str(error), first.url, "Who are you?", second.url, "Not here")


async def test_a_refused_token_and_a_refused_item_are_an_error_of_the_item() -> None:
    first = FakeRewardServer(always=lambda post: Answer(401))
    second = FakeRewardServer(always=lambda post: Answer(422 if post.texts == ["6"] else 200))
    with first, second:
        for urls in ((first.url, second.url), (second.url, first.url)):
            async with asking(*urls, batch_size=1) as client:
                error = await error_of(client, 6)
                assert (type(error), error.cause, error.cause.refuses_all) == (Refused, Cause.ITEM, False)
                assert await rewards(client, 5) == [5]


async def test_a_refused_item_is_asked_once_of_each_service_and_not_of_one_that_is_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with FakeRewardServer(always=lambda post: Answer(422)) as first:
        with FakeRewardServer(always=lambda post: Answer(422)) as second:
            async with asking(first.url, second.url) as client:
                assert isinstance(await error_of(client, 1), Refused)
            assert (len(first.posts), len(second.posts)) == (1, 1)
        monkeypatch.setattr(endpoints, "FIRST_PAUSE", 600.0)
        async with asking(f"http://127.0.0.1:{free_port()}", first.url, max_backoff=600.0) as client:
            assert isinstance(await asyncio.wait_for(error_of(client, 1), 30), Refused)


async def test_where_one_service_refuses_and_the_other_is_down_the_error_names_both() -> None:
    dead = f"http://127.0.0.1:{free_port()}/v1/grade"
    with FakeRewardServer(always=lambda post: Answer(401)) as refusing:
        async with asking(refusing.url, dead, deadline=0.5) as client:
            error = await error_of(client, 1)
    assert type(error) is Unavailable
    assert_refusal(str(error), refusing.url, "HTTP 401", dead, "attempts in")


@pytest.fixture
def killable() -> Iterator[Callable[[int], subprocess.Popen[str]]]:
    """Starts a reward server as a process of its own on the given port."""
    processes: list[subprocess.Popen[str]] = []

    def start(port: int) -> subprocess.Popen[str]:
        command = [sys.executable, fake_reward_server.__file__, str(port), "0.02"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "listening\n"
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


async def test_every_result_still_arrives_when_the_service_is_killed_and_comes_back(
    killable: Callable[[int], subprocess.Popen[str]],
) -> None:
    port = free_port()
    process = await asyncio.to_thread(killable, port)
    async with asking(f"http://127.0.0.1:{port}", batch_size=4, max_in_flight=4) as client:
        calls = [asyncio.create_task(rewards(client, i)) for i in range(200)]
        await calls[20]
        process.kill()  # SIGKILL, with requests under way
        process.wait()
        assert not all(call.done() for call in calls)
        await asyncio.sleep(0.3)
        await asyncio.to_thread(killable, port)
        assert await asyncio.gather(*calls) == [[i] for i in range(200)]
    assert client.stats.failures == 0
    assert client.stats.retries > 0


FAULTS = {
    "hang-up": Answer(drop=True),
    "busy": Answer(503, headers={"Retry-After": "0"}),
    "crash": Answer(500),
    "html": Answer(body=b"<html>"),
    "too few": Answer(body={"results": [], "rewards": []}),
    "empty": Answer(body={"results": [{}], "rewards": [None]}),
}


@settings(max_examples=25)
@given(
    faults=st.lists(st.sampled_from(sorted(FAULTS)), max_size=6),
    n=st.integers(1, 9),
    batch_size=st.integers(1, 4),
    in_flight=st.integers(1, 3),
    path=st.sampled_from(PATHS),
)
def test_whatever_happens_on_the_way_each_item_gets_its_own_reward(
    faults: list[str], n: int, batch_size: int, in_flight: int, path: str
) -> None:
    async def run() -> None:
        with FakeRewardServer([FAULTS[name] for name in faults]) as server:
            limits = {"batch_size": batch_size, "max_in_flight": in_flight, "max_backoff": 0.002}
            async with asking(server.url + path, **limits) as client:
                assert await rewards(client, *range(n)) == list(range(n))

    asyncio.run(run())


# Callers that leave, and the end


async def test_a_cancelled_caller_does_not_disturb_the_others_of_its_batch() -> None:
    with FakeRewardServer([Answer(delay=0.3)]) as server:
        async with asking(server.url) as client:
            calls = [asyncio.create_task(client.grade_item(item(i))) for i in range(3)]
            while not server.posts:
                await asyncio.sleep(0.01)
            calls[1].cancel()
            first, second, third = await asyncio.gather(*calls, return_exceptions=True)
        assert told([first, third], [0, 2]) == [0, 2]
        assert isinstance(second, asyncio.CancelledError)
        assert client.stats.items == 2


async def test_closing_fails_every_waiting_caller_and_leaves_no_task_behind() -> None:
    with FakeRewardServer(always=lambda post: Answer(delay=60.0)) as server:
        before = asyncio.all_tasks()
        client = AsyncClient(server.url, batch_size=1, max_in_flight=2)
        calls = [asyncio.create_task(client.grade_item(item(i))) for i in range(5)]
        while len(server.posts) < 2:
            await asyncio.sleep(0.01)
        await client.aclose()
        errors = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(error) for error in errors] == 5 * [ClientClosed]
        assert asyncio.all_tasks() == before
        with pytest.raises(ClientClosed, match="make a new one"):
            await client.grade("1", "1")
        await client.aclose()


def test_a_client_serves_one_event_loop() -> None:
    with FakeRewardServer() as server:
        client = AsyncClient(server.url, **FAST)
        assert asyncio.run(rewards(client, 0.5)) == [0.5]
        error = asyncio.run(error_of(client, 0.5))
        assert isinstance(error, ClientClosed)
        assert "one for each loop" in str(error)


async def test_the_counters_add_up_and_an_idle_client_holds_nothing() -> None:
    with FakeRewardServer([Answer(503), Answer(delay=0.1)]) as server:
        async with asking(server.url) as client:
            await outcomes(client, 1, 2)
            stats = client.stats
            assert not any((client._waiting, client._queue))
    assert (stats.requests, stats.items, stats.retries, stats.failures, stats.failovers) == (2, 2, 2, 0, 0)
    assert stats.seconds_waited >= 0.2
