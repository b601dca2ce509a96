"""The reward client against real servers on real sockets: what is asked again, deadlines, servers that come and go,
callers that leave."""

import asyncio
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from openrlhf_gtpo.rewards.client import Reward, RewardClient, RewardClientSettings, RewardError

from .asking import ask, error_of, lines, outcomes, result, reward_client
from .fake_reward_server import Answer, FakeRewardServer, free_port

# What is asked again, and what is not


@pytest.mark.parametrize(
    "answer",
    [Answer(500), Answer(502), Answer(503), Answer(408), Answer(429), Answer(delay=1.0), Answer(drop=True)],
    ids=["500", "502", "503", "408", "429", "timeout", "hang-up"],
)
@pytest.mark.parametrize("path", ["/v1/grade", "/get_reward"])
async def test_a_transient_failure_is_asked_again(answer: Answer, path: str):
    with FakeRewardServer([answer, answer]) as server:
        async with reward_client(server.url + path, timeout=0.3 if answer.delay else 5.0) as client:
            assert (await client.reward(ask("0.5"))).reward == 0.5
        assert len(server.posts) >= 3
        assert client.stats.retries >= 2


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 413, 422])
@pytest.mark.parametrize("path", ["/v1/grade", "/get_reward"])
async def test_a_refusal_is_not_asked_again(status: int, path: str):
    with FakeRewardServer(always=lambda post: Answer(status)) as server:
        async with reward_client(server.url + path) as client:
            error = await error_of(client, ask(1))
        assert len(server.posts) == 1
        assert error.permanent
        assert error.url == server.url + path
        assert error.attempts == 1
        assert str(status) in str(error)
        assert ("check the token" in str(error)) == (status in (401, 403))
        assert error.of_client == (status in (401, 403, 404, 405))


# The deadline


async def test_a_deadline_of_zero_is_a_single_attempt():
    with FakeRewardServer(always=lambda post: Answer(503)) as server:
        async with reward_client(server.url, deadline=0.0) as client:
            error = await error_of(client, ask(1))
        assert len(server.posts) == 1
        assert error.attempts == 1
        assert not error.permanent
        assert "503" in str(error)


async def test_a_server_that_was_never_there_is_an_error_at_the_deadline():
    url = f"http://127.0.0.1:{free_port()}/v1/grade"
    async with reward_client(url, deadline=0.3) as client:
        error = await error_of(client, ask(1))
    assert error.url == url
    assert error.seconds >= 0.3
    assert error.attempts > 1
    assert "could not be asked" in str(error)
    assert client.stats.failures == 1


async def test_a_server_that_only_lies_is_an_error_at_the_deadline_that_says_how():
    with FakeRewardServer(always=lambda post: Answer(body=result(reward=float("nan")))) as server:
        async with reward_client(server.url, deadline=0.5) as client:
            error = await error_of(client, ask(1))
        assert len(server.posts) > 1
    assert error.seconds >= 0.5
    assert "'reward' that is not finite (nan)" in str(error)


async def test_a_completion_that_only_queues_is_not_given_up_while_others_are_served():
    with FakeRewardServer(always=lambda post: Answer(delay=0.15)) as server:
        async with reward_client(server.url, deadline=1.0, batch_size=1, max_in_flight=1) as client:
            got = await outcomes(client, *(ask(i) for i in range(10)))
        assert [reward.reward for reward in got] == [float(i) for i in range(10)]
        assert len(server.posts) == 10


async def test_a_completion_that_queues_behind_a_server_that_hangs_is_given_up_too():
    with FakeRewardServer(always=lambda post: Answer(delay=2.0)) as server:
        async with reward_client(server.url, deadline=0.3, batch_size=1, max_in_flight=1) as client:
            got = await outcomes(client, *(ask(i) for i in range(5)))
    assert [type(error) for error in got] == 5 * [RewardError]
    assert [error.attempts for error in got] == [1, 0, 0, 0, 0]
    assert all("has not answered" in str(error) for error in got)


# Servers that come and go


@pytest.fixture
def killable() -> Iterator[Callable[[int], subprocess.Popen[str]]]:
    """Starts a reward server as a process of its own on the given port."""
    processes: list[subprocess.Popen[str]] = []

    def start(port: int) -> subprocess.Popen[str]:
        program = Path(__file__).with_name("fake_reward_server.py")
        command = [sys.executable, str(program), str(port), "0.02"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "listening\n"
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


async def test_a_server_that_appears_late_is_waited_for():
    port = free_port()
    async with reward_client(f"http://127.0.0.1:{port}") as client:
        waiting = asyncio.create_task(client.reward(ask("0.5")))
        while not client.stats.retries:  # nobody was there the first time
            await asyncio.sleep(0.01)
        with FakeRewardServer(port=port):
            assert (await waiting).reward == 0.5


async def test_every_reward_still_arrives_when_the_server_is_killed_and_comes_back(
    killable: Callable[[int], subprocess.Popen[str]], caplog: pytest.LogCaptureFixture
):
    port = free_port()
    process = await asyncio.to_thread(killable, port)
    async with reward_client(f"http://127.0.0.1:{port}", batch_size=4, max_in_flight=4) as client:
        calls = [asyncio.create_task(client.reward(ask(i))) for i in range(200)]
        await calls[20]
        process.kill()  # SIGKILL, with requests under way
        process.wait()
        assert not all(call.done() for call in calls)
        await asyncio.sleep(0.3)
        await asyncio.to_thread(killable, port)
        got = await asyncio.gather(*calls)
    assert [reward.reward for reward in got] == [float(i) for i in range(200)]
    assert client.stats.failures == 0
    assert client.stats.retries > 0
    down, back = lines(caplog)
    assert "is down" in down
    assert "is back after" in back


# Callers that leave, and the end


async def test_a_cancelled_caller_does_not_disturb_the_others_of_its_batch():
    with FakeRewardServer([Answer(delay=0.3)]) as server:
        async with reward_client(server.url) as client:
            calls = [asyncio.create_task(client.reward(ask(i))) for i in range(3)]
            while not server.posts:
                await asyncio.sleep(0.01)
            calls[1].cancel()
            got = await asyncio.gather(*calls, return_exceptions=True)
        assert [got[0].reward, got[2].reward] == [0.0, 2.0]
        assert isinstance(got[1], asyncio.CancelledError)
        assert client.stats.items == 2


async def test_closing_fails_every_waiting_caller_and_leaves_no_task_behind():
    with FakeRewardServer(always=lambda post: Answer(delay=5.0)) as server:
        before = asyncio.all_tasks()
        client = RewardClient(RewardClientSettings((server.url,), batch_size=1, max_in_flight=2))
        calls = [asyncio.create_task(client.reward(ask(i))) for i in range(5)]
        while len(server.posts) < 2:
            await asyncio.sleep(0.01)
        await client.aclose()
        got = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(error) for error in got] == 5 * [RewardError]
        assert all("closed" in str(error) for error in got)
        assert asyncio.all_tasks() == before
        with pytest.raises(RewardError, match="closed"):
            await client.reward(ask(1))
        await client.aclose()


def test_a_client_serves_one_event_loop():
    with FakeRewardServer() as server:
        client = RewardClient(RewardClientSettings((server.url,)))

        async def use_and_leave() -> Reward:
            return await client.reward(ask("0.5"))

        assert asyncio.run(use_and_leave()).reward == 0.5
        with pytest.raises(RuntimeError, match="make one per loop"):
            asyncio.run(use_and_leave())


# The small print


async def test_the_counters_add_up():
    with FakeRewardServer([Answer(503), Answer(delay=0.1)]) as server:
        async with reward_client(server.url) as client:
            await outcomes(client, ask(1), ask(2))
            stats = client.stats
    assert (stats.requests, stats.items, stats.retries, stats.failures, stats.failovers) == (2, 2, 2, 0, 0)
    assert stats.seconds_waited >= 0.2


async def test_an_idle_client_holds_nothing_of_the_completions_it_rewarded():
    with FakeRewardServer() as server:
        async with reward_client(server.url) as client:
            await outcomes(client, *(ask(i) for i in range(5)))
            assert not client._waiting
            assert not client._queue
            assert not client._posts


def test_a_reward_error_survives_the_way_between_processes():
    error = RewardError("No reward.", url="http://a/v1/grade", attempts=3, seconds=1.5, permanent=True, of_client=True)
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == "No reward."
    assert (copy.url, copy.attempts, copy.seconds, copy.permanent) == ("http://a/v1/grade", 3, 1.5, True)
    assert copy.of_client


def test_the_module_needs_nothing_but_httpx_and_the_standard_library():
    code = (
        "import sys, openrlhf_gtpo.rewards.client\n"
        "print(sorted({'torch', 'numpy', 'ray', 'vllm', 'openrlhf', 'deepspeed', 'aiohttp'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
