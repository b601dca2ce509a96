"""Both protocols: what is asked, and what every answer means, good and bad."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openrlhf_gtpo.rewards.client import Reward, RewardError, RewardRequest
from openrlhf_gtpo.rewards.protocols import GradeProtocol

from .asking import ask, error_of, outcomes, result, reward_client
from .fake_reward_server import Answer, FakeRewardServer, Post


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


# Prompts that items share


def requests_of(prompts: list[str]) -> list[RewardRequest]:
    return [RewardRequest(f"says {i}", f"{i % 3}", prompt, f"{prompt}says {i}") for i, prompt in enumerate(prompts)]


@given(prompts=st.lists(st.text(max_size=5), max_size=12))
def test_a_body_with_shared_prompts_says_the_same_as_the_other_and_has_each_prompt_once(prompts: list[str]):
    batch = requests_of(prompts)
    body = GradeProtocol.question(batch, shared_prompts=True)
    assert sorted(body["prompts"]) == sorted(set(prompts))
    unfolded = [{**item, "prompt": body["prompts"][item["prompt"]]} for item in body["items"]]
    assert {"items": unfolded} == GradeProtocol.question(batch)


def test_a_group_of_sixteen_with_a_long_prompt_sends_a_fraction_of_the_bytes():
    """16 x (prompt + rest) before, prompt + 16 x rest after: 15 prompts less, but for some bytes of syntax."""
    prompt = "word " * 300
    batch = requests_of([prompt] * 16)
    before, after = (len(json.dumps(GradeProtocol.question(batch, shared_prompts=shared))) for shared in (False, True))
    assert before - after == pytest.approx(15 * len(prompt), abs=100)


async def test_a_service_that_says_so_gets_each_prompt_once_a_request_from_then_on():
    group = requests_of(["one prompt"] * 3 + ["another"])
    says_so = Answer(headers={"Accept-Prompts": "shared"})
    with FakeRewardServer(always=lambda post: says_so) as server:
        async with reward_client(server.url, batch_size=4) as client:
            asked = [RewardRequest(str(i), "1", r.prompt, r.query) for i, r in enumerate(group)]
            assert await outcomes(client, *asked) == await outcomes(client, *asked)
    first, second = (post.payload for post in server.posts)
    assert first == GradeProtocol.question(asked)
    assert second == {
        "prompts": ["one prompt", "another"],
        "items": [{"completion": str(i), "reference": "1", "prompt": place} for i, place in enumerate([0, 0, 0, 1])],
    }


@pytest.mark.parametrize("header", [{}, {"Accept-Prompts": "none"}])
async def test_a_service_that_does_not_say_so_gets_each_items_own_prompt_for_ever(header: dict[str, str]):
    with FakeRewardServer(always=lambda post: Answer(headers=header)) as server:
        async with reward_client(server.url) as client:
            for _ in range(3):
                await outcomes(client, ask(1), ask(0))
    assert all("prompts" not in post.payload for post in server.posts)


async def test_openrlhfs_protocol_is_spoken_as_ever_whatever_the_answers_say():
    with FakeRewardServer(always=lambda post: Answer(headers={"Accept-Prompts": "shared"})) as server:
        async with reward_client(server.url + "/get_reward") as client:
            for _ in range(2):
                await client.reward(ask(1))
    assert [post.payload["prompts"] for post in server.posts] == [["prompt of 1"]] * 2


@pytest.mark.parametrize("deadline", [0.0, 20.0])
async def test_a_service_that_is_replaced_by_an_older_one_gets_what_that_one_understands(deadline: float):
    """The older one refuses fields that it does not know, as it should; nothing is lost, and it is asked once."""

    def answer(post: Post) -> Answer:
        if len(server.posts) == 1:
            return Answer(headers={"Accept-Prompts": "shared"})
        return Answer(422) if "prompts" in post.payload else Answer()

    with FakeRewardServer(always=answer) as server:
        async with reward_client(server.url, deadline=deadline, batch_size=4) as client:
            got = [(await client.reward(ask(i))).reward for i in range(4)]
    assert got == [0.0, 1.0, 2.0, 3.0]
    assert ["prompts" in post.payload for post in server.posts] == [False, True, False, False, False]
    assert client.stats.failures == 0
