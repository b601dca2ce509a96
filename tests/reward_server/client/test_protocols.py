"""Both protocols: what is asked, and what every answer means, good and bad."""

from typing import Any

import pytest

from math_reward.client import BadAnswer, Cause, Item, NotJudged, Unavailable

from ...fake_reward_server import Answer, FakeRewardServer, Post, right_answer
from ...refusals import assert_refusal
from .asking import PATHS, asking, body, error_of, item, outcomes, rewards

MODEL = "/get_reward"

# What is asked

GRADED = {"items": [{"completion": "0.5", "reference": "1", "prompt": "prompt of 0.5"}]}
ASKED: list[tuple[str, Item, str, dict[str, Any]]] = [
    *((path, item("0.5"), "/v1/grade", GRADED) for path in ("", "/", "/v1/grade", "/v1/grade/")),
    ("/behind/a/proxy/v1/grade", item("0.5"), "/behind/a/proxy/v1/grade", GRADED),
    (
        f"{MODEL}?model=a",
        item("-1", "7"),
        f"{MODEL}?model=a",
        {"query": ["-1"], "prompts": ["prompt of -1"], "labels": ["7"]},
    ),
    (MODEL, Item("4", "4", "2+2="), MODEL, {"query": ["2+2=4"], "prompts": ["2+2="], "labels": ["4"]}),
]


@pytest.mark.parametrize(("path", "asked", "posted_to", "payload"), ASKED)
async def test_the_path_of_a_url_says_which_protocol_is_spoken(
    path: str, asked: Item, posted_to: str, payload: dict[str, Any]
) -> None:
    with FakeRewardServer(always=lambda post: Answer(body=body() | {"rewards": 1.0})) as server:
        async with asking(server.url + path) as client:
            await client.grade_item(asked)
    assert [(post.path, post.payload) for post in server.posts] == [(posted_to, payload)]


async def test_without_reward_models_every_path_is_that_of_a_reward_service() -> None:
    with FakeRewardServer() as server:
        async with asking(server.url + MODEL, reward_models=False) as client:
            assert await rewards(client, 0.5) == [0.5]
    assert server.posts[0].items


async def test_a_service_that_says_so_gets_each_prompt_once_a_request_from_then_on() -> None:
    group = [Item(str(i), "1", prompt) for i, prompt in enumerate(["one", "one", "two", "one"])]
    with FakeRewardServer(always=lambda post: Answer(headers={"Accept-Prompts": "shared"})) as server:
        async with asking(server.url, batch_size=4) as client:
            assert await outcomes(client, *group) == await outcomes(client, *group)
    first, second = (post.payload for post in server.posts)
    assert first == {
        "items": [{"completion": one.completion, "reference": "1", "prompt": one.prompt} for one in group]
    }
    places = zip(first["items"], [0, 0, 1, 0], strict=True)
    assert second == {"prompts": ["one", "two"], "items": [row | {"prompt": place} for row, place in places]}


# What an answer means


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"rewards": 0.5}, (0.5, 0.5, {})),
        ({"rewards": [2]}, (2.0, 2.0, {})),
        ({"rewards": [[0.5]], "scores": [True]}, (0.5, 1.0, {})),
        ({"rewards": -3e38, "scores": 10**30}, (-3e38, 1e30, {})),
        ({"rewards": 1.5, "scores": 0, "extra_logs": {"length": [[3]]}}, (1.5, 0.0, {"length": 3.0})),
        ({"rewards": 1.5, "scores": None, "extra_logs": None}, (1.5, 1.5, {})),
    ],
)
async def test_every_shape_that_openrlhfs_reward_models_answer_in_is_understood(
    answer: Any, expected: tuple[float, float, dict[str, float]]
) -> None:
    with FakeRewardServer(always=lambda post: Answer(body=answer)) as server:
        async with asking(server.url + MODEL) as client:
            [found] = await outcomes(client, 1)
        assert len(server.posts) == 1
    assert (found.reward, found.score, found.extra_logs) == expected
    assert found.correct == (expected[1] == 1)


@pytest.mark.parametrize("verdict", ["wrong", "timeout", "a verdict of a later version"])
async def test_a_verdict_on_the_completion_is_a_reward_that_keeps_it(verdict: str) -> None:
    answers = [Answer(body=body(reward=0.0, correct=False, verdict=verdict, detail=None)), Answer(body=body())]
    with FakeRewardServer(answers) as server:
        async with asking(server.url) as client:
            [wrong], [right] = await outcomes(client, 1), await outcomes(client, 1)
    assert (wrong.reward, wrong.correct, wrong.score, wrong.verdict) == (0.0, False, 0.0, verdict)
    assert (right.reward, right.correct, right.score, right.extra_logs) == (1.0, True, 1.0, {})


async def test_the_verdict_error_is_asked_again_for_that_item_alone() -> None:
    def answer(post: Post) -> Answer:
        right = right_answer(post)
        if len(server.posts) == 1:
            right["results"][1] |= {"reward": 0.0, "correct": False, "verdict": "error"}
        return Answer(body=right)

    with FakeRewardServer(always=answer) as server:
        async with asking(server.url) as client:
            assert await rewards(client, "1", "0.25") == [1.0, 0.25]
        assert [post.texts for post in server.posts] == [["1", "0.25"], ["0.25"]]


UNREADABLE = {
    "/v1/grade": {"results": [body(verdict="bad_reference")["results"][0], body()["results"][0]]},
    MODEL: {"rewards": 0.0, "extra_logs": {"verdict_bad_reference": 1.0}},
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("prompt", "shown"),
    [("short", "'short'"), ("a" * 100 + "b" * 9 + "c" * 100, f"'{'a' * 100} ... {'c' * 100}'")],
)
async def test_a_bad_reference_fails_at_once_and_its_row_can_be_found(path: str, prompt: str, shown: str) -> None:
    with FakeRewardServer([Answer(body=UNREADABLE[path])]) as server:
        async with asking(server.url + path) as client:
            error, *good = await outcomes(client, Item("0", "x" * 80 + "y", prompt), *(["1"] if path != MODEL else []))
        assert len(server.posts) == 1
    assert [(one.reward, one.score) for one in good] == [(1.0, 1.0)] * len(good)
    assert isinstance(error, NotJudged)
    assert error.cause is Cause.REFERENCE
    assert_refusal(str(error), "'" + "x" * 80 + "'", f"prompt: {shown}")


NAN, INFINITE = float("nan"), float("inf")
REFUSED: list[tuple[str, Any, str]] = [
    *(("", one, "HTML") for one in (b"<html>502 Bad Gateway</html>", b"", b"\xff\xfe")),
    *(("", one, "array") for one in ([], b"[" * 100_000)),
    ("", b'{"results": [], "more": ' + b"[" * 100_000, "HTML"),
    ("", {"results": None}, "results"),
    ("", {"results": []}, "0 results"),
    ("", {"results": 2 * body()["results"]}, "2 results"),
    ("", {"results": [None]}, "null"),
    *(("", body(reward=one), "check the URL") for one in (NAN, INFINITE, 10**400)),
    *(("", body(reward=one), "reward") for one in ("absent", "1", True, [1.0])),
    *(("", body(correct=one), "correct") for one in (None, 1)),
    *(("", body(verdict=one), "verdict") for one in ("absent", 1)),
    *(("", body(reward=one), f"the reward {one:g}") for one in (1e300, 1.5, -0.5, 0.0)),
    ("", body(reward=-0.5, correct=False, verdict="wrong"), "the reward -0.5"),
    *(("", body(verdict=one), f"'{one}'") for one in ("wrong", "no_answer", "")),
    ("", body(reward=0.0, correct=False), "'correct'"),
    *(("", body(reward=0.5, **one), "the reward 0.5") for one in ({"correct": False}, {"verdict": "wrong"})),
    ("", body(correct=False, verdict="wrong"), "the reward 1"),
    *(("", body(scores=one), f"the score {one:g}") for one in (1e300, 0.0)),
    (MODEL, b"<html></html>", "HTML"),
    (MODEL, {"error": "out of memory"}, "rewards"),
    *((MODEL, {"rewards": one}, "rewards") for one in (None, [[1.0, 2.0]], [[[1.0]]], [None], "1.0")),
    (MODEL, {"rewards": [NAN]}, "JSON"),
    *((MODEL, {"rewards": one}, "float") for one in (1e300, [[-1e39]])),
    (MODEL, {"rewards": 1.0, "scores": 1e39}, "scores`"),
    *((MODEL, {"rewards": one}, "rewards`") for one in ([], [1.0, 2.0])),
    (MODEL, {"rewards": 1.0, "scores": [1, 0]}, "scores`"),
    (MODEL, {"rewards": 1.0, "extra_logs": [1]}, "extra_logs"),
    *((MODEL, {"rewards": 1.0, "extra_logs": {"tag": one}}, "extra_logs") for one in ("a", [1, 2])),
]


@pytest.mark.parametrize(("path", "answer", "named"), REFUSED)
async def test_an_answer_that_is_none_is_asked_again_or_becomes_an_error_that_says_what_was_wrong(
    path: str, answer: Any, named: str
) -> None:
    with FakeRewardServer([Answer(body=answer), Answer(body=answer)]) as server:
        async with asking(server.url + path, deadline=0) as client:
            error = await error_of(client, "0.5")
        assert isinstance(error, BadAnswer)
        assert_refusal(str(error), named)
        async with asking(server.url + path) as client:
            assert await rewards(client, "0.5") == [0.5]
        assert len(server.posts) == 3


@pytest.mark.parametrize(
    ("path", "answer"),
    [("", body(verdict="error", detail="Why.")), (MODEL, {"rewards": 0.0, "extra_logs": {"verdict_error": 1.0}})],
)
async def test_what_could_not_be_graded_to_the_end_is_an_error_and_no_reward(path: str, answer: Any) -> None:
    with FakeRewardServer(always=lambda post: Answer(body=answer)) as server:
        async with asking(server.url + path, deadline=0) as client:
            error = await error_of(client, "0.5")
    assert (type(error), error.cause) == (Unavailable, Cause.UNAVAILABLE)
    assert_refusal(str(error), *(["completion: Why."] if not path else []))
