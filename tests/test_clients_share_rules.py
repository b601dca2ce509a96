"""Two clients, one set of rules: the plugin's, which needs nothing of `math_reward`, and `math_reward.client`.

They are two implementations, because neither distribution may depend on the other: the plugin's shares batches between
thousands of coroutines of a rollout actor and speaks OpenRLHF's protocol too; the other has typed results, a thread of
its own for ordinary code, and long iterables. What must not differ is what is asked again, how a batch is divided and
what an error is. So each rule here is tested with both, against the same faulty server.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import math_reward.client.posting
import openrlhf_gtpo.rewards.posting
from math_reward.client import AsyncClient, ClientError, Item, Refused
from openrlhf_gtpo.rewards.client import RewardClient, RewardClientSettings, RewardError, RewardRequest

from .certificates import write_certificate
from .plugin.rewards.fake_reward_server import Answer, FakeRewardServer, Post, free_port, right_answer

FAST = {"timeout": 60.0, "deadline": 120.0, "max_backoff": 0.02, "batch_wait": 0.02}
"""Limits that only a failure uses up, and pauses that cost a test little."""


@dataclass(frozen=True)
class Failed:
    """An item without a reward."""

    message: str
    permanent: bool
    attempts: int


Outcome = tuple[float, bool] | Failed
"""Reward and correctness, or why there are none."""
Ask = Callable[..., "asyncio.Future[Outcome]"]


@asynccontextmanager
async def of_plugin(*urls: str, **limits: Any) -> AsyncIterator[Ask]:
    client = RewardClient(RewardClientSettings(urls=urls, **(FAST | limits)))

    async def ask(completion: str, reference: str = "1", prompt: str = "a prompt") -> Outcome:
        try:
            reward = await client.reward(RewardRequest(completion, reference, prompt, prompt + completion))
        except RewardError as error:
            return Failed(str(error), error.permanent, error.attempts)
        return reward.reward, bool(reward.score)

    try:
        yield lambda *item: asyncio.ensure_future(ask(*item))
    finally:
        await client.aclose()


@asynccontextmanager
async def of_service(*urls: str, **limits: Any) -> AsyncIterator[Ask]:
    client = AsyncClient(urls, **(FAST | limits))

    async def ask(completion: str, reference: str = "1", prompt: str = "a prompt") -> Outcome:
        try:
            result = await client.grade_item(Item(completion, reference, prompt))
        except ClientError as error:
            return Failed(str(error), isinstance(error, Refused), error.attempts)
        return result.reward, result.correct

    try:
        yield lambda *item: asyncio.ensure_future(ask(*item))
    finally:
        await client.aclose()


@pytest.fixture(params=[of_plugin, of_service], ids=["plugin", "service"])
def client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in ("MATH_REWARD_TOKEN", "MATH_REWARD_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    return request.param


async def all_of(ask: Ask, *texts: object) -> list[Outcome]:
    """The outcomes of completions that are asked for at once."""
    return await asyncio.gather(*(ask(str(text)) for text in texts))


def earned(*texts: object) -> list[Outcome]:
    """What `FakeRewardServer` pays for completions whose reference is 1."""
    return [(float(str(text)), str(text) == "1") for text in texts]


def only(failed: Outcome) -> Failed:
    assert isinstance(failed, Failed), failed
    return failed


def with_result(**fields: Any) -> Callable[[Post], Answer]:
    """Right answers, but for these fields of each result."""

    def answer(post: Post) -> Answer:
        right = right_answer(post)["results"]
        return Answer(body={"results": [{**result, **fields} for result in right]})

    return answer


# What is asked again


@pytest.mark.parametrize("fault", [Answer(500), Answer(502), Answer(503), Answer(408), Answer(429), Answer(drop=True)])
async def test_a_transient_failure_is_asked_again(client: Any, fault: Answer) -> None:
    with FakeRewardServer([fault, fault]) as server:
        async with client(server.url) as ask:
            assert await ask("0.5") == (0.5, False)
        assert len(server.posts) == 3


async def test_a_server_that_is_slow_once_is_asked_again(client: Any) -> None:
    with FakeRewardServer([Answer(delay=1.0)]) as server:
        async with client(server.url, timeout=0.5) as ask:
            assert await ask("0.5") == (0.5, False)
        assert len(server.posts) >= 2


async def test_a_server_that_refuses_connections_is_waited_for(client: Any) -> None:
    port = free_port()
    async with client(f"http://127.0.0.1:{port}") as ask:
        outcome = ask("0.5")
        await asyncio.sleep(0.1)
        with FakeRewardServer(port=port):
            assert await outcome == (0.5, False)


@pytest.mark.parametrize("form", ["seconds", "date"])
async def test_a_server_that_says_when_to_come_back_is_left_alone_until_then(client: Any, form: str) -> None:
    def answer(post: Post) -> Answer:
        if len(server.posts) > 1:
            return Answer()
        # A date has whole seconds, so three of them are at least two.
        date = format_datetime(datetime.now(timezone.utc) + timedelta(seconds=3), usegmt=True)
        return Answer(503, headers={"Retry-After": "1" if form == "seconds" else date})

    with FakeRewardServer(always=answer) as server:
        async with client(server.url) as ask:
            assert await ask("0.5") == (0.5, False)
        first, second = (post.at for post in server.posts)
    assert second - first >= 0.9


async def test_a_deadline_of_zero_is_a_single_attempt(client: Any) -> None:
    with FakeRewardServer(always=lambda post: Answer(503)) as server:
        async with client(server.url, deadline=0.0) as ask:
            failed = only(await ask("1"))
        assert len(server.posts) == 1
    assert (failed.permanent, failed.attempts) == (False, 1)
    assert server.url in failed.message
    assert "503" in failed.message


async def test_a_server_that_is_never_there_is_an_error_after_the_deadline(client: Any) -> None:
    async with client(f"http://127.0.0.1:{free_port()}", deadline=0.3) as ask:
        failed = only(await ask("1"))
    assert not failed.permanent
    assert failed.attempts >= 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 413, 422])
async def test_a_refusal_is_not_asked_again(client: Any, status: int) -> None:
    with FakeRewardServer(always=lambda post: Answer(status)) as server:
        async with client(server.url) as ask:
            failed = only(await ask("1"))
        assert len(server.posts) == 1
    assert (failed.permanent, failed.attempts) == (True, 1)
    assert str(status) in failed.message
    assert ("token" in failed.message) == (status in (401, 403))


@pytest.mark.parametrize("status", [400, 401, 404])
async def test_a_refusal_of_everything_is_not_asked_again_in_smaller_batches(client: Any, status: int) -> None:
    with FakeRewardServer(always=lambda post: Answer(status)) as server:
        async with client(server.url, batch_size=8) as ask:
            assert all(only(outcome).permanent for outcome in await all_of(ask, *range(8)))
        assert len(server.posts) == 1


# Answers that are none


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"<html>502 Bad Gateway</html>", "HTML that is not JSON"),
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        ([], "without a list 'results'"),
        ({"results": None}, "without a list 'results'"),
        ({"results": []}, "0 results for 1 items"),
        ({"results": [{}, {}]}, "2 results for 1 items"),
        ({"results": [None]}, "a result"),
    ],
)
async def test_an_answer_without_results_is_asked_again_or_an_error_that_says_what_was_wrong(
    client: Any, answer: Any, words: str
) -> None:
    with FakeRewardServer(always=lambda post: Answer(body=answer)) as server:
        async with client(server.url, deadline=0) as ask:
            failed = only(await ask("0.5"))
    assert not failed.permanent
    assert words in failed.message
    with FakeRewardServer([Answer(body=answer)]) as server:
        async with client(server.url) as ask:
            assert await ask("0.5") == (0.5, False)
        assert len(server.posts) == 2


@pytest.mark.parametrize(
    "fields",
    [
        *({"reward": reward} for reward in (float("nan"), float("inf"), 10**400, None, "1", True, [1.0])),
        *({"correct": correct} for correct in (None, 1, "true")),
        *({"verdict": verdict} for verdict in (None, 1)),
    ],
    ids=str,
)
async def test_a_result_with_a_value_of_the_wrong_kind_is_never_a_reward(client: Any, fields: dict[str, Any]) -> None:
    with FakeRewardServer(always=with_result(**fields)) as server:
        async with client(server.url, deadline=0) as ask:
            failed = only(await ask("0.5"))
    assert not failed.permanent
    assert next(iter(fields)) in failed.message


async def test_one_reward_that_is_not_finite_does_not_fail_its_neighbours(client: Any) -> None:
    def answer(post: Post) -> Answer:
        body = right_answer(post)
        if len(server.posts) == 1:
            body["results"][1]["reward"] = float("nan")
        return Answer(body=body)

    with FakeRewardServer(always=answer) as server:
        async with client(server.url) as ask:
            assert await all_of(ask, 1, 2, 3) == earned(1, 2, 3)
        assert [post.texts for post in server.posts] == [["1", "2", "3"], ["2"]]


async def test_an_answer_that_is_too_long_is_not_read_to_its_end(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for posting in (math_reward.client.posting, openrlhf_gtpo.rewards.posting):
        monkeypatch.setattr(posting, "MAX_ANSWER_BYTES", 2**20)
    with FakeRewardServer(always=lambda post: Answer(body=b" " * 2**21)) as server:
        async with client(server.url, deadline=0) as ask:
            assert "more than 1 MiB" in only(await ask("1")).message


async def test_the_verdict_error_is_asked_again_for_that_item_alone(client: Any) -> None:
    def answer(post: Post) -> Answer:
        body = right_answer(post)
        if len(server.posts) == 1:
            body["results"][1] |= {"reward": 0.0, "correct": False, "verdict": "error"}
        return Answer(body=body)

    with FakeRewardServer(always=answer) as server:
        async with client(server.url) as ask:
            assert await all_of(ask, 1, 0.25) == earned(1, 0.25)
        assert [post.texts for post in server.posts] == [["1", "0.25"], ["0.25"]]


async def test_the_verdict_error_to_the_end_is_an_error_and_no_reward(client: Any) -> None:
    fields = {"reward": 0.0, "correct": False, "verdict": "error"}
    with FakeRewardServer(always=with_result(**fields)) as server:
        async with client(server.url, deadline=0) as ask:
            failed = only(await ask("1"))
    assert not failed.permanent
    assert "could not grade" in failed.message


def with_a_bad_reference(post: Post) -> Answer:
    """Right answers, but the first item's reference cannot be read."""
    body = right_answer(post)
    body["results"][0] |= {"reward": 0.0, "correct": False, "verdict": "bad_reference"}
    return Answer(body=body)


async def test_a_reference_that_cannot_be_read_fails_at_once_and_is_named(client: Any) -> None:
    reference = "x" * 80 + "y"
    with FakeRewardServer(always=with_a_bad_reference) as server:
        async with client(server.url) as ask:
            bad, good = await asyncio.gather(ask("0", reference), ask("1"))
        assert len(server.posts) == 1
    assert good == (1.0, True)
    assert only(bad).permanent
    assert "'" + "x" * 80 + "'" in only(bad).message
    assert "fix this row of the data (its prompt: 'a prompt')" in only(bad).message


async def test_a_certificate_that_is_not_trusted_is_a_failure_at_once(client: Any, tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*write_certificate(tmp_path, "service"))
    with FakeRewardServer(tls=context) as server:
        async with client(server.url) as ask:
            failed = await ask("1")
        assert not server.posts
    assert only(failed).permanent
    assert only(failed).attempts == 1
    assert "has a certificate that is not trusted (self" in only(failed).message


@pytest.mark.parametrize(
    ("prompt", "shown"),
    [("short", "'short'"), ("a" * 100 + "b" * 9 + "c" * 100, f"'{'a' * 100} ... {'c' * 100}'")],
)
async def test_a_row_with_a_bad_reference_is_named_by_its_prompt(client: Any, prompt: str, shown: str) -> None:
    with FakeRewardServer(always=with_a_bad_reference) as server:
        async with client(server.url) as ask:
            bad = await ask("0", "?", prompt)
    assert f"(its prompt: {shown}" in only(bad).message


@pytest.mark.parametrize("verdict", ["wrong", "no_answer", "timeout", "too_complex", "a verdict of a later version"])
async def test_any_other_verdict_is_a_reward(client: Any, verdict: str) -> None:
    with FakeRewardServer(always=with_result(reward=0.0, correct=False, verdict=verdict)) as server:
        async with client(server.url) as ask:
            assert await ask("1") == (0.0, False)


# Batches


@pytest.mark.parametrize("status", [413, 422])
async def test_a_batch_that_is_refused_is_halved_until_the_bad_item_is_alone(client: Any, status: int) -> None:
    with FakeRewardServer(always=lambda post: Answer(status) if "6" in post.texts else Answer()) as server:
        async with client(server.url, batch_size=8) as ask:
            *good, bad, last = await all_of(ask, 0, 1, 2, 3, 4, 5, 6, 7)
        sizes = sorted(len(post.texts) for post in server.posts)
    assert [*good, last] == earned(0, 1, 2, 3, 4, 5, 7)
    assert only(bad).permanent
    assert sizes == [1, 1, 2, 2, 4, 4, 8]


@pytest.mark.parametrize("fault", [Answer(drop=True), Answer(500)], ids=["hang-up", "500"])
async def test_a_batch_that_crashes_the_server_is_halved_until_the_bad_item_is_alone(
    client: Any, fault: Answer
) -> None:
    with FakeRewardServer(always=lambda post: fault if "6" in post.texts else Answer()) as server:
        async with client(server.url, batch_size=8) as ask:
            outcomes = [ask(str(i)) for i in range(8)]
            bad = outcomes.pop(6)
            assert await asyncio.gather(*outcomes) == earned(0, 1, 2, 3, 4, 5, 7)
            while not any(post.texts == ["6"] for post in server.posts):
                await asyncio.sleep(0.01)
            assert not bad.done()
            bad.cancel()


async def test_an_overloaded_server_gets_the_same_batch_again(client: Any) -> None:
    with FakeRewardServer([Answer(503), Answer(429)]) as server:
        async with client(server.url, batch_size=8) as ask:
            assert await all_of(ask, *range(8)) == earned(*range(8))
        assert [len(post.texts) for post in server.posts] == [8, 8, 8]


async def test_concurrent_calls_share_requests_up_to_the_limits(client: Any) -> None:
    with FakeRewardServer(always=lambda post: Answer(delay=0.02)) as server:
        async with client(server.url, batch_size=8, max_in_flight=2) as ask:
            assert await all_of(ask, *range(100)) == earned(*range(100))
        assert max(len(post.texts) for post in server.posts) == 8
        assert len(server.posts) == 13  # 12 of 8, and 4
        assert server.most_at_once <= 2


async def test_items_behind_a_server_that_hangs_are_given_up_together_and_not_one_deadline_after_the_other(
    client: Any,
) -> None:
    with FakeRewardServer(always=lambda post: Answer(delay=60.0)) as server:
        async with client(server.url, deadline=0.5, batch_size=1, max_in_flight=1) as ask:
            outcomes = [only(outcome) for outcome in await all_of(ask, *range(5))]
    assert [outcome.attempts for outcome in outcomes] == [1, 0, 0, 0, 0]
    assert not any(outcome.permanent for outcome in outcomes)


async def test_an_item_that_only_queues_is_not_given_up_while_others_get_results(client: Any) -> None:
    with FakeRewardServer(always=lambda post: Answer(delay=0.6)) as server:
        async with client(server.url, deadline=5.0, batch_size=1, max_in_flight=1) as ask:  # 10 of them take 6 s
            assert await all_of(ask, *range(10)) == earned(*range(10))


# Several servers


async def test_another_server_takes_over(client: Any) -> None:
    with FakeRewardServer(always=lambda post: Answer(500)) as broken, FakeRewardServer() as sound:
        nobody = f"http://127.0.0.1:{free_port()}"
        async with client(nobody, broken.url, sound.url, batch_size=2) as ask:
            assert await all_of(ask, *range(20)) == earned(*range(20))
        assert 1 <= len(broken.posts) <= 20
        assert len(sound.posts) >= 1


async def test_servers_share_the_work(client: Any) -> None:
    with FakeRewardServer() as one, FakeRewardServer() as other:
        async with client(one.url, other.url, batch_size=1) as ask:
            for i in range(10):
                assert await ask(str(i)) in earned(i)
        assert (len(one.posts), len(other.posts)) == (5, 5)


# The way


@pytest.mark.parametrize("path", ["", "/", "/v1/grade", "/v1/grade/", "/behind/a/proxy/v1/grade"])
async def test_a_url_without_a_path_is_asked_at_v1_grade(client: Any, path: str) -> None:
    with FakeRewardServer() as server:
        async with client(server.url + path) as ask:
            assert await ask("1") == (1.0, True)
        [post] = server.posts
    assert post.path == (path.rstrip("/") or "/v1/grade")
    assert post.payload == {"items": [{"completion": "1", "reference": "1", "prompt": "a prompt"}]}


async def test_the_token_is_sent_and_is_in_no_message(client: Any) -> None:
    with FakeRewardServer([Answer(500), Answer(drop=True), Answer(401)]) as server:
        async with client(server.url, token="tell-nobody") as ask:
            failed = only(await ask("0.4711"))
        assert [post.headers["Authorization"] for post in server.posts] == ["Bearer tell-nobody"] * 3
    assert "tell-nobody" not in failed.message
    assert "0.4711" not in failed.message


async def test_no_authorization_is_sent_without_a_token(client: Any) -> None:
    with FakeRewardServer() as server:
        async with client(server.url) as ask:
            await ask("1")
        assert "Authorization" not in server.posts[0].headers


async def test_a_redirect_is_followed(client: Any) -> None:
    with FakeRewardServer([Answer(307, headers={"Location": "/moved"})]) as server:
        async with client(server.url) as ask:
            assert await ask("0.5") == (0.5, False)
        assert [post.path for post in server.posts] == ["/v1/grade", "/moved"]


async def test_a_proxy_of_the_environment_does_not_get_between(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    with FakeRewardServer() as server:
        async with client(server.url, deadline=0) as ask:
            assert await ask("0.5") == (0.5, False)


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8000", "ftp://host", "http://", "http://host:0", "http://host:99999", "http://me:pw@host"]
)
async def test_a_url_that_cannot_be_asked_is_refused_when_the_client_is_made(client: Any, url: str) -> None:
    with pytest.raises(ValueError, match=r"\.$") as refused:
        async with client(url):
            pass
    assert "pw" not in str(refused.value)


@pytest.mark.parametrize(
    "limits",
    [
        {"timeout": 0},
        {"timeout": float("nan")},
        {"deadline": -1},
        {"deadline": float("inf")},
        {"batch_size": 0},
        {"max_in_flight": 0},
        {"max_backoff": 0},
        {"batch_wait": -1},
        {"token": ""},
        {"token": "two words"},
        {"token": "line\nbreak"},
    ],
    ids=str,
)
async def test_a_limit_that_makes_no_sense_is_refused_by_name(client: Any, limits: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(limits))) as refused:
        async with client("http://127.0.0.1:1", **limits):
            pass
    assert "words" not in str(refused.value)


# Prompts that items share


async def test_a_server_that_says_so_gets_each_prompt_once_a_request_from_then_on(client: Any) -> None:
    with FakeRewardServer(always=lambda post: Answer(headers={"Accept-Prompts": "shared"})) as server:
        async with client(server.url, batch_size=4) as ask:
            for _ in range(2):
                await asyncio.gather(
                    *(ask(str(i), "1", prompt) for i, prompt in enumerate(["one", "one", "two", "one"]))
                )
    first, second = (post.payload for post in server.posts)
    assert "prompts" not in first
    assert second["prompts"] == ["one", "two"]
    assert [item["prompt"] for item in second["items"]] == [0, 0, 1, 0]
    assert [{**item, "prompt": second["prompts"][item["prompt"]]} for item in second["items"]] == first["items"]


@pytest.mark.parametrize("deadline", [0.0, 120.0])
async def test_an_older_server_that_takes_anothers_place_gets_what_it_understands(
    client: Any, deadline: float
) -> None:
    def answer(post: Post) -> Answer:
        if len(server.posts) == 1:
            return Answer(headers={"Accept-Prompts": "shared"})
        return Answer(422) if "prompts" in post.payload else Answer()

    with FakeRewardServer(always=answer) as server:
        async with client(server.url, deadline=deadline) as ask:
            assert [await ask(str(i)) for i in range(4)] == earned(0, 1, 2, 3)
    assert ["prompts" in post.payload for post in server.posts] == [False, True, False, False, False]


# The end


async def test_closing_the_client_ends_every_wait_with_an_error(client: Any) -> None:
    with FakeRewardServer(always=lambda post: Answer(delay=60.0)) as server:
        async with client(server.url, batch_size=1, max_in_flight=1) as ask:
            outcomes = [ask(str(i)) for i in range(3)]
            while not server.posts:
                await asyncio.sleep(0.01)
        assert all("closed" in only(outcome).message for outcome in await asyncio.gather(*outcomes))


FAULTS = {
    "hang-up": Answer(drop=True),
    "busy": Answer(503, headers={"Retry-After": "0"}),
    "crash": Answer(500),
    "html": Answer(body=b"<html>"),
    "too few": Answer(body={"results": []}),
    "empty": Answer(body={"results": [{}]}),
}


@pytest.mark.parametrize("way", [of_plugin, of_service], ids=["plugin", "service"])
@settings(max_examples=15)
@given(
    faults=st.lists(st.sampled_from(sorted(FAULTS)), max_size=6),
    n=st.integers(1, 9),
    batch_size=st.integers(1, 4),
    in_flight=st.integers(1, 3),
)
def test_whatever_happens_on_the_way_each_item_gets_its_own_reward(
    way: Any, faults: list[str], n: int, batch_size: int, in_flight: int
) -> None:
    async def run() -> None:
        with FakeRewardServer([FAULTS[name] for name in faults]) as server:
            limits = {"batch_size": batch_size, "max_in_flight": in_flight, "max_backoff": 0.002}
            async with way(server.url, **limits) as ask:
                assert await all_of(ask, *range(n)) == earned(*range(n))

    asyncio.run(run())
