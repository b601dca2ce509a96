"""The reward client against real servers on real sockets, well and badly behaved."""

import asyncio
import logging
import pickle
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from openrlhf_gtpo.rewards import client as rewards
from openrlhf_gtpo.rewards.client import Reward, RewardClient, RewardClientSettings, RewardError, RewardRequest

from .fake_reward_server import Answer, FakeRewardServer, Post, free_port

FAST = {"timeout": 5.0, "deadline": 20.0, "max_backoff": 0.02, "batch_wait": 0.02}


@asynccontextmanager
async def reward_client(*urls: str, **settings: Any) -> AsyncIterator[RewardClient]:
    client = RewardClient(RewardClientSettings(urls=urls, **(FAST | settings)))
    try:
        yield client
    finally:
        await client.aclose()


def ask(text: object, reference: str = "1") -> RewardRequest:
    return RewardRequest(completion=str(text), reference=reference, prompt=f"prompt of {text}", query=str(text))


async def outcomes(client: RewardClient, *requests: RewardRequest) -> list[Any]:
    """A reward or an exception for each request; all are asked for at once."""
    return await asyncio.gather(*(client.reward(request) for request in requests), return_exceptions=True)


async def error_of(client: RewardClient, request: RewardRequest) -> RewardError:
    with pytest.raises(RewardError) as caught:
        await client.reward(request)
    return caught.value


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "openrlhf_gtpo.rewards.client"]


# Batching


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


async def test_no_more_requests_are_under_way_than_max_in_flight_and_their_connections_are_reused():
    with FakeRewardServer(always=lambda post: Answer(delay=0.02)) as server:
        async with reward_client(server.url, batch_size=1, max_in_flight=3) as client:
            got = await outcomes(client, *(ask(i) for i in range(30)))
        assert [reward.reward for reward in got] == [float(i) for i in range(30)]
        assert len(server.posts) == 30
        assert server.most_at_once == 3
        assert server.connections == 3


# The two protocols


@pytest.mark.parametrize("path", ["", "/", "/v1/grade", "/v1/grade/", "/behind/a/proxy/v1/grade"])
async def test_the_grade_protocol_is_spoken_to_a_grade_path_and_to_a_url_without_path(path: str):
    with FakeRewardServer() as server:
        async with reward_client(server.url + path) as client:
            got = await outcomes(client, ask("1"), ask("0.5"))
        assert got == [Reward(1.0, 1.0, "correct", {}), Reward(0.5, 0.0, "wrong", {})]
        [post] = server.posts
        assert post.path == (path.rstrip("/") or "/v1/grade")
        assert post.payload == {
            "items": [
                {"completion": "1", "reference": "1", "prompt": "prompt of 1"},
                {"completion": "0.5", "reference": "1", "prompt": "prompt of 0.5"},
            ]
        }


async def test_openrlhfs_protocol_is_spoken_to_any_other_path():
    with FakeRewardServer() as server:
        async with reward_client(server.url + "/get_reward?model=a") as client:
            got = await outcomes(client, ask("1"), ask("-0.5", reference="7"))
        assert got == [Reward(1.0, 1.0, None, {}), Reward(-0.5, -0.5, None, {})]
        [post] = server.posts
        assert post.path == "/get_reward?model=a"
        assert post.payload == {
            "query": ["1", "-0.5"],
            "prompts": ["prompt of 1", "prompt of -0.5"],
            "labels": ["1", "7"],
        }


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"rewards": 0.5}, [Reward(0.5, 0.5, None, {})]),
        ({"rewards": [2]}, [Reward(2.0, 2.0, None, {})]),
        ({"rewards": [[0.5]], "scores": [True]}, [Reward(0.5, 1.0, None, {})]),
        ({"rewards": 1.5, "scores": 0, "extra_logs": {"length": 3}}, [Reward(1.5, 0.0, None, {"length": 3.0})]),
        ({"rewards": 1.5, "scores": None, "extra_logs": None}, [Reward(1.5, 1.5, None, {})]),
        ({"rewards": [1, 2]}, [Reward(1.0, 1.0, None, {}), Reward(2.0, 2.0, None, {})]),
        (
            {"rewards": [[1], [2]], "scores": [0, 1], "extra_logs": {"a": [[5], [6]]}},
            [Reward(1.0, 0.0, None, {"a": 5.0}), Reward(2.0, 1.0, None, {"a": 6.0})],
        ),
    ],
)
async def test_every_shape_that_openrlhfs_reward_models_answer_in_is_understood(answer: Any, expected: list[Reward]):
    with FakeRewardServer(always=lambda post: Answer(body=answer)) as server:
        async with reward_client(server.url + "/get_reward") as client:
            assert await outcomes(client, *(ask(i) for i in range(len(expected)))) == expected
        assert len(server.posts) == 1


def one_query_only(refusal: Answer) -> Callable[[Post], Answer]:
    """A server written for OpenRLHF's own client, which never sends two queries at once."""
    return lambda post: refusal if len(post.texts) > 1 else Answer()


@pytest.mark.parametrize(
    "refusal",
    [Answer(500), Answer(400), Answer(422), Answer(body={"rewards": 1.0}), Answer(body={"rewards": [1.0]})],
    ids=["500", "400", "422", "scalar", "one value"],
)
@pytest.mark.parametrize("deadline", [0.0, 20.0])
async def test_a_server_that_handles_one_query_per_post_gets_one_query_per_post(
    refusal: Answer, deadline: float, caplog: pytest.LogCaptureFixture
):
    with FakeRewardServer(always=one_query_only(refusal)) as server:
        # However busy the machine is, the five go into the first request.
        async with reward_client(server.url + "/get_reward", deadline=deadline, batch_wait=0.5) as client:
            got = await outcomes(client, *(ask(i) for i in range(5)))
            more = await outcomes(client, *(ask(i) for i in range(5, 9)))
        assert [reward.reward for reward in got + more] == [float(i) for i in range(9)]
        assert [len(post.texts) for post in server.posts] == [5] + 9 * [1]
        [line] = lines(caplog)
        assert "from now on it gets one at a time" in line


async def test_the_verdict_timeout_is_a_reward_of_zero_that_keeps_its_verdict():
    result = {"reward": 0.0, "correct": False, "verdict": "timeout"}
    with FakeRewardServer([Answer(body={"results": [result]})]) as server:
        async with reward_client(server.url) as client:
            assert await client.reward(ask(1)) == Reward(0.0, 0.0, "timeout", {})
        assert len(server.posts) == 1


async def test_the_verdict_error_is_asked_again_for_that_item_only():
    results = [
        {"reward": 1.0, "correct": True, "verdict": "correct"},
        {"reward": 0.0, "correct": False, "verdict": "error"},
    ]
    with FakeRewardServer([Answer(body={"results": results})]) as server:
        async with reward_client(server.url) as client:
            got = await outcomes(client, ask("1"), ask("0.25"))
        assert got == [Reward(1.0, 1.0, "correct", {}), Reward(0.25, 0.0, "wrong", {})]
        assert [post.texts for post in server.posts] == [["1", "0.25"], ["0.25"]]


async def test_a_bad_reference_fails_at_once_and_names_the_first_eighty_characters_of_it():
    reference = "x" * 80 + "y"
    results = [
        {"reward": 0.0, "correct": False, "verdict": "bad_reference"},
        {"reward": 1.0, "correct": True, "verdict": "correct"},
    ]
    with FakeRewardServer([Answer(body={"results": results})]) as server:
        async with reward_client(server.url) as client:
            error, reward = await outcomes(client, ask("0", reference=reference), ask("1"))
        assert reward == Reward(1.0, 1.0, "correct", {})
        assert isinstance(error, RewardError)
        assert error.permanent
        assert "'" + "x" * 80 + "'" in str(error)
        assert len(server.posts) == 1


async def test_a_bad_reference_that_the_logs_of_openrlhfs_protocol_tell_of_fails_at_once_too():
    answer = {"rewards": [0.0, 1.0], "extra_logs": {"verdict_bad_reference": [1.0, 0.0]}}
    with FakeRewardServer([Answer(body=answer)]) as server:
        async with reward_client(server.url + "/get_reward") as client:
            error, reward = await outcomes(client, ask("0", reference="?"), ask("1"))
        assert reward == Reward(1.0, 1.0, None, {"verdict_bad_reference": 0.0})
        assert isinstance(error, RewardError)
        assert error.permanent
        assert "cannot read the reference answer '?', fix this row of the data" in str(error)
        assert len(server.posts) == 1


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


async def test_a_wrong_token_fails_a_whole_batch_with_one_post():
    with FakeRewardServer(always=lambda post: Answer(401)) as server:
        async with reward_client(server.url) as client:
            errors = await outcomes(client, *(ask(i) for i in range(8)))
        assert all("check the token" in str(error) for error in errors)
        assert len(server.posts) == 1


async def test_a_retry_after_in_seconds_is_waited_for():
    with FakeRewardServer([Answer(429, headers={"Retry-After": "1"})]) as server:
        async with reward_client(server.url) as client:
            assert (await client.reward(ask("0.5"))).reward == 0.5
        first, second = server.posts
        assert second.at - first.at >= 1.0


async def test_a_retry_after_as_a_date_is_waited_for():
    date = format_datetime(datetime.now(timezone.utc) + timedelta(seconds=3), usegmt=True)  # cut to whole seconds
    with FakeRewardServer([Answer(503, headers={"Retry-After": date})]) as server:
        async with reward_client(server.url) as client:
            assert (await client.reward(ask("0.5"))).reward == 0.5
        first, second = server.posts
        assert second.at - first.at >= 1.0


@pytest.mark.parametrize("header", ["soon", "-5", "nan", "Wed, 21 Oct 2015 07:28:00 GMT"])
async def test_a_retry_after_without_meaning_does_not_hold_up_the_retry(header: str):
    with FakeRewardServer([Answer(503, headers={"Retry-After": header})]) as server:
        async with reward_client(server.url) as client:
            assert (await client.reward(ask("0.5"))).reward == 0.5
        assert len(server.posts) == 2


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


def result(**fields: Any) -> dict[str, Any]:
    right = {"reward": 1.0, "correct": True, "verdict": "correct"}
    return {"results": [{name: value for name, value in (right | fields).items() if value != "absent"}]}


@pytest.mark.parametrize(
    ("path", "answer", "words"),
    [
        ("", b"<html>502 Bad Gateway</html>", "HTML that is not JSON"),
        ("", b"", "not JSON"),
        ("", b"\xff\xfe", "not JSON"),
        ("", b"[" * 100_000, "not JSON"),
        ("", [], "without a list 'results'"),
        ("", {"results": None}, "without a list 'results'"),
        ("", {"results": []}, "0 results for 1 items"),
        ("", {"results": 2 * result()["results"]}, "2 results for 1 items"),
        ("", {"results": [None]}, "a result that is null"),
        ("", result(reward=float("nan")), "'reward' that is not finite (nan)"),
        ("", result(reward=float("inf")), "'reward' that is not finite (inf)"),
        ("", result(reward=10**400), "'reward' that is not finite"),
        ("", result(reward=None), "'reward' that is null"),
        ("", result(reward="absent"), "'reward' that is null"),
        ("", result(reward="1"), "'reward' that is a string"),
        ("", result(reward=True), "'reward' that is a boolean"),
        ("", result(reward=[1.0]), "'reward' that is a list"),
        ("", result(correct=None), "'correct' that is null"),
        ("", result(correct=1), "'correct' that is a number"),
        ("", result(verdict="absent"), "'verdict' that is null"),
        ("", result(verdict="error"), "verdict 'error'"),
        ("/get_reward", {"rewards": 0.0, "extra_logs": {"verdict_error": 1.0}}, "verdict 'error'"),
        ("/get_reward", b"<html></html>", "HTML that is not JSON"),
        ("/get_reward", {"error": "out of memory"}, "without 'rewards'"),
        ("/get_reward", {"rewards": None}, "without 'rewards'"),
        ("/get_reward", {"rewards": []}, "0 values as 'rewards' for 1 queries"),
        ("/get_reward", {"rewards": [1.0, 2.0]}, "2 values as 'rewards' for 1 queries"),
        ("/get_reward", {"rewards": [[1.0, 2.0]]}, "'rewards' in a shape"),
        ("/get_reward", {"rewards": [[[1.0]]]}, "'rewards' that is a list"),
        ("/get_reward", {"rewards": [None]}, "'rewards' that is null"),
        ("/get_reward", {"rewards": True}, "'rewards' that is a boolean"),
        ("/get_reward", {"rewards": "1.0"}, "'rewards' that is a string"),
        ("/get_reward", {"rewards": [float("nan")]}, "'rewards' that is not finite (nan)"),
        ("/get_reward", {"rewards": 1.0, "scores": [float("-inf")]}, "'scores' that is not finite (-inf)"),
        ("/get_reward", {"rewards": 1.0, "scores": [1, 0]}, "2 values as 'scores' for 1 queries"),
        ("/get_reward", {"rewards": 1.0, "extra_logs": [1]}, "'extra_logs' that is a list"),
        ("/get_reward", {"rewards": 1.0, "extra_logs": {"tag": "a"}}, "'extra_logs tag' that is a string"),
    ],
)
async def test_an_answer_that_is_not_a_reward_is_asked_again_or_becomes_an_error_that_says_what_was_wrong(
    path: str, answer: Any, words: str
):
    with FakeRewardServer(always=lambda post: Answer(body=answer)) as server:
        async with reward_client(server.url + path, deadline=0) as client:
            error = await error_of(client, ask("0.5"))
        assert words in str(error)
        assert not error.permanent
    with FakeRewardServer([Answer(body=answer)]) as server:
        async with reward_client(server.url + path) as client:
            assert (await client.reward(ask("0.5"))).reward == 0.5
        assert len(server.posts) == 2


async def test_one_reward_that_is_not_finite_does_not_fail_its_neighbours():
    with FakeRewardServer([Answer(body={"rewards": [1.0, float("nan"), 3.0]})]) as server:
        async with reward_client(server.url + "/get_reward") as client:
            got = await outcomes(client, ask(1), ask(2), ask(3))
        assert [reward.reward for reward in got] == [1.0, 2.0, 3.0]
        assert [post.texts for post in server.posts] == [["1", "2", "3"], ["2"]]


async def test_an_endless_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rewards, "MAX_ANSWER_BYTES", 2**20)
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


async def test_a_batch_that_failed_together_is_asked_again_together():
    with FakeRewardServer([Answer(503)] * 3) as server:
        # A full batch goes at once; however slow the machine is, none goes before all have asked.
        async with reward_client(server.url, batch_size=50, batch_wait=15.0) as client:
            got = await outcomes(client, *(ask(i) for i in range(50)))
        assert [reward.reward for reward in got] == [float(i) for i in range(50)]
        assert [len(post.texts) for post in server.posts] == 4 * [50]


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


# Several servers


async def test_the_load_is_spread_over_all_servers():
    with FakeRewardServer() as a, FakeRewardServer() as b:
        async with reward_client(a.url, b.url, batch_size=4) as client:
            got = await outcomes(client, *(ask(i) for i in range(32)))
        assert [reward.reward for reward in got] == [float(i) for i in range(32)]
        assert [len(a.posts), len(b.posts)] == [4, 4]


async def test_a_dead_server_is_failed_over_without_waiting_for_its_backoff(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(rewards, "FIRST_BACKOFF", 600.0)
    dead = f"http://127.0.0.1:{free_port()}/v1/grade"
    with FakeRewardServer() as healthy:
        async with reward_client(dead, healthy.url, batch_size=4, max_backoff=600.0) as client:
            got = await asyncio.wait_for(outcomes(client, *(ask(i) for i in range(32))), 15)
        assert [reward.reward for reward in got] == [float(i) for i in range(32)]
    assert client.stats.failovers >= 4
    assert client.stats.failures == 0
    [line] = lines(caplog)
    assert dead in line


async def test_a_server_that_hangs_does_not_take_every_request_with_it():
    with FakeRewardServer(always=lambda post: Answer(delay=20.0)) as hung, FakeRewardServer() as healthy:
        async with reward_client(hung.url, healthy.url, batch_size=1, max_in_flight=4, timeout=1.0) as client:
            got = await outcomes(client, *(ask(i) for i in range(40)))
        assert [reward.reward for reward in got] == [float(i) for i in range(40)]
        assert len(hung.posts) >= 1


async def test_a_server_that_is_back_gets_its_share_again_and_both_events_are_logged_once(
    caplog: pytest.LogCaptureFixture,
):
    with FakeRewardServer([Answer(503)] * 3) as flaky, FakeRewardServer() as healthy:
        async with reward_client(flaky.url, healthy.url, batch_size=1) as client:

            async def until_it_is_back() -> None:
                while len(flaky.posts) < 4:  # three refusals and an answer
                    assert (await client.reward(ask(1))).reward == 1.0

            await asyncio.wait_for(until_it_is_back(), 30)
            before = len(flaky.posts), len(healthy.posts)
            for i in range(40):
                assert (await client.reward(ask(i))).reward == float(i)
        assert [len(flaky.posts) - before[0], len(healthy.posts) - before[1]] == [20, 20]
    down, back = lines(caplog)
    assert flaky.url in down
    assert flaky.url in back


async def test_a_server_that_flaps_does_not_flood_the_log(caplog: pytest.LogCaptureFixture):
    with FakeRewardServer([Answer(503), Answer()] * 10) as server:
        async with reward_client(server.url) as client:
            for i in range(10):
                assert (await client.reward(ask(i))).reward == float(i)
        assert len(server.posts) == 20
    assert len(lines(caplog)) == 2


# Secrets


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


async def test_the_query_of_a_url_is_not_shown():
    async with reward_client(f"http://127.0.0.1:{free_port()}/get_reward?key=secret", deadline=0) as client:
        error = await error_of(client, ask(1))
    assert "/get_reward" in str(error)
    assert "secret" not in str(error) + error.url


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


async def test_a_caller_cancelled_before_its_batch_is_sent_is_not_sent():
    with FakeRewardServer() as server:
        async with reward_client(server.url, batch_wait=0.1) as client:
            calls = [asyncio.create_task(client.reward(ask(i))) for i in range(3)]
            await asyncio.sleep(0)
            calls[1].cancel()
            await asyncio.gather(*calls, return_exceptions=True)
        assert [post.texts for post in server.posts] == [["0", "2"]]


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


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"urls": ()}, "at least one"),
        ({"urls": "http://a"}, "must be a tuple"),
        ({"urls": ("a:8000",)}, "not 'a:8000'"),
        ({"urls": ("ftp://a/v1/grade",)}, "http:// or https://"),
        ({"urls": ("http:///v1/grade",)}, "http:// or https://"),
        ({"urls": ("http://a:99999",)}, "http:// or https://"),
        ({"urls": ("reward.py",)}, "not 'reward.py'"),
        ({"urls": ("http://user:pass@a",)}, "must not hold credentials"),
        ({"token": ""}, "token"),
        ({"token": "tell-nobody\n"}, "token"),
        ({"token": "tell nobody"}, "token"),
        ({"token": "tell-nobody\u2026"}, "token"),
        ({"timeout": 0}, "timeout must be a positive number of seconds, not 0"),
        ({"timeout": float("nan")}, "timeout"),
        ({"deadline": -1}, "deadline must be 0 or a positive number"),
        ({"deadline": float("inf")}, "deadline"),
        ({"batch_size": 0}, "batch_size must be at least 1, not 0"),
        ({"batch_wait": -0.1}, "batch_wait"),
        ({"max_in_flight": 0}, "max_in_flight"),
        ({"max_backoff": 0}, "max_backoff"),
    ],
)
def test_a_setting_out_of_bounds_is_refused_in_one_sentence(settings: dict[str, Any], words: str):
    with pytest.raises(ValueError, match=r"urls|must") as caught:
        RewardClientSettings(**({"urls": ("http://a",)} | settings))
    message = str(caught.value)
    assert words in message
    assert "nobody" not in message
    assert "pass@" not in message
    assert "\n" not in message


def test_the_module_needs_nothing_but_httpx_and_the_standard_library():
    code = (
        "import sys, openrlhf_gtpo.rewards.client\n"
        "print(sorted({'torch', 'numpy', 'ray', 'vllm', 'openrlhf', 'deepspeed', 'aiohttp'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
