"""The judge over a real socket: it lies, hangs, is slow, answers rubbish, fails and recovers."""

import asyncio
import json
import math
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from math_reward.judge import judge as judge_module
from math_reward.judge.judge import Judge, JudgeFailed
from math_reward.judge_settings import JudgeSettings

from ...fake_reward_server import Answer, FakeRewardServer, Post, free_port
from ...refusals import assert_refusal
from .fake_judge import NO, YES, answers_of, asked, judge, reply

FAILS = Answer(500, body={})
Use = Callable[[Judge], Coroutine[Any, Any, Any]]


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge_module, "FIRST_PAUSE_SECONDS", 0.01)


def with_judge(url: str, use: Use, **settings: Any) -> tuple[Any, dict[str, int]]:
    """What ``use`` returns, and the counts of the judge's questions."""

    async def run() -> Any:
        one = Judge(JudgeSettings(url, "tiny", **settings))
        try:
            return await use(one), dict(one.questions)
        finally:
            await one.aclose()

    return asyncio.run(run())


def same(reference: str = "Evelyn", answer: str = "Evelyn Smith", question: str | None = "Who wins?") -> Use:
    return lambda one: one.same(question, reference, answer)


def failure(server: FakeRewardServer, **settings: Any) -> str:
    with server, pytest.raises(JudgeFailed) as failed:
        with_judge(server.url, same(), **settings)
    return str(failed.value)


def test_the_judge_is_asked_in_both_orders_with_the_question():
    with judge() as server:
        said, counts = with_judge(server.url, same(), key="secret-key")
    assert said == (True, True)
    assert counts == {"yes": 2, "no": 0, "none": 0, "remembered": 0}
    assert {post.path for post in server.posts} == {"/v1/chat/completions"}
    assert {answers_of(post) for post in server.posts} == {("Evelyn", "Evelyn Smith"), ("Evelyn Smith", "Evelyn")}
    for post in server.posts:
        assert asked(post)["question"] == "Who wins?"
        assert post.headers["Authorization"] == "Bearer secret-key"
        body = {
            name: post.payload[name] for name in ("model", "max_tokens", "temperature", "logprobs", "top_logprobs")
        }
        assert body == {"model": "tiny", "max_tokens": 1, "temperature": 0, "logprobs": True, "top_logprobs": 20}


def test_a_judge_that_prefers_an_order_is_seen_to():
    with judge(lambda post: YES if answers_of(post)[0] == "Evelyn" else NO) as server:
        said, _ = with_judge(server.url, same())
    assert said == (True, False)


@pytest.mark.parametrize("body", [b"", b"yes", b"<html>yes", {"error": "yes"}, reply(0.1, 0.1, Sure=0.8)], ids=ascii)
def test_rubbish_is_no_answer_and_is_not_asked_for_again(body: Any):
    server = judge(Answer(body=body))
    assert_refusal(failure(server), "judge")
    assert len(server.posts) <= 2


def test_nan_is_no_answer():
    body = reply(0.9, 0.1)
    body["choices"][0]["logprobs"]["content"][0]["top_logprobs"][0]["logprob"] = math.nan
    assert "NaN" in json.dumps(body)
    assert_refusal(failure(judge(Answer(body=body))), "log-probability")


def test_a_huge_reply_is_not_read_to_its_end():
    assert_refusal(failure(judge(Answer(body=b" " * 3 * 2**20))), "1 MiB")


def test_a_judge_that_fails_and_recovers_is_asked_again():
    with judge(YES, [FAILS, Answer(503, body={}), Answer(429, body={}), Answer(drop=True), FAILS]) as server:
        said, counts = with_judge(server.url, same())
    assert said == (True, True)
    assert counts["yes"] == 2
    assert len(server.posts) == 7


@pytest.mark.parametrize(("answer", "named"), [(FAILS, "HTTP 500"), (Answer(drop=True), "hung up")])
def test_after_the_last_attempt_there_is_no_answer(answer: Answer, named: str):
    server = judge(answer)
    assert_refusal(failure(server), named)
    assert judge_module.ATTEMPTS <= len(server.posts) <= 2 * judge_module.ATTEMPTS


@pytest.mark.parametrize(
    ("status", "todo"),
    [(401, "set MATH_REWARD_JUDGE_KEY"), (404, "check --judge"), (400, "chat template"), (307, "--judge")],
)
def test_a_refusal_says_what_to_do_and_is_not_tried_again(status: int, todo: str):
    server = judge(Answer(status, body={}, headers={"Location": "http://127.0.0.1:1/"}))
    assert_refusal(failure(server), f"HTTP {status}", todo)
    assert len(server.posts) <= 2


def test_nobody_listening_is_no_answer():
    with pytest.raises(JudgeFailed, match="--judge"):
        with_judge(f"http://127.0.0.1:{free_port()}", same())


def test_a_judge_that_hangs_costs_its_deadline_and_others_wait_no_longer():
    async def many(one: Judge) -> list[Any]:
        began = asyncio.get_running_loop().time()
        said = await asyncio.gather(*[one.same(None, "a", f"b {i}") for i in range(40)], return_exceptions=True)
        return [*said, asyncio.get_running_loop().time() - began]

    with judge(Answer(delay=30)) as server:
        (*said, seconds), counts = with_judge(server.url, many, deadline=0.5, concurrency=4)
    assert all(isinstance(one, JudgeFailed) and "0.5 s" in str(one) for one in said)
    assert seconds < 5
    assert len(server.posts) <= 8
    assert counts["none"] == 8


def test_a_slow_judge_is_waited_for():
    with judge(Answer(body=YES.body, delay=0.4)) as server:
        said, _ = with_judge(server.url, same(), deadline=20)
    assert said == (True, True)


def test_no_more_items_are_asked_about_at_once_than_is_allowed():
    async def many(one: Judge) -> Any:
        return await asyncio.gather(*[one.same(None, "a", f"b {i}") for i in range(30)])

    with judge(Answer(body=YES.body, delay=0.02)) as server:
        with_judge(server.url, many, concurrency=3)
    assert len(server.posts) == 60
    assert server.most_at_once <= 6  # both orders of three items


def test_what_was_judged_is_remembered_and_asked_for_once():
    async def twice(one: Judge) -> Any:
        at_once = await asyncio.gather(*[same()(one) for _ in range(5)])
        return [*at_once, await same()(one), await same(question="Another?")(one)]

    with judge() as server:
        said, counts = with_judge(server.url, twice)
    assert said == [(True, True)] * 7
    assert len(server.posts) == 4
    assert counts == {"yes": 4, "no": 0, "none": 0, "remembered": 10}


def test_a_failure_is_not_remembered(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(judge_module, "DOWN_SECONDS", 0)

    async def again(one: Judge) -> Any:
        with pytest.raises(JudgeFailed):
            await same()(one)
        return await same()(one)

    with judge(YES, [Answer(body=b"rubbish")]) as server:
        # One alone: the failure of one order ends the other, perhaps before it was asked.
        assert with_judge(server.url, again)[0] == (True, True)


def test_after_a_failure_the_next_questions_fail_at_once_for_a_while(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(judge_module, "DOWN_SECONDS", 0.3)

    async def three(one: Judge) -> Any:
        failures = []
        for answer in ("b", "c"):
            with pytest.raises(JudgeFailed) as failed:
                await one.same(None, "a", answer)
            failures.append(str(failed.value))
        await asyncio.sleep(0.5)
        return failures, await one.same(None, "a", "b")

    with judge(YES, [FAILS] * 2 * judge_module.ATTEMPTS) as server:
        # Both orders fail together, so that the second item has no attempt left over.
        (failures, said), _ = with_judge(server.url, three)
    assert all("HTTP 500" in failure for failure in failures)
    assert said == (True, True)


def test_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(judge_module, "REMEMBERED_BYTES", 20 * judge_module.REMEMBERED_ITEM_BYTES)

    async def many(one: Judge) -> int:
        for i in range(100):
            await one.same("q" * 10_000, "a", f"b {i}")
        return len(one._known._new) + len(one._known._old)

    with judge() as server:
        kept, _ = with_judge(server.url, many)
    assert kept <= 20


def test_who_no_longer_waits_is_not_asked_for():
    async def leave(one: Judge) -> Any:
        alone = asyncio.ensure_future(one.same(None, "a", "alone"))
        first, second = (asyncio.ensure_future(one.same(None, "a", "shared")) for _ in range(2))
        await asyncio.sleep(0.2)
        alone.cancel()
        first.cancel()
        return await second, await one.same(None, "a", "alone")

    def slow(post: Post) -> Answer:
        return Answer(body=YES.body, delay=0.5)

    with judge(slow) as server:
        said, counts = with_judge(server.url, leave)
    assert said == ((True, True), (True, True))
    assert counts["none"] == 2
