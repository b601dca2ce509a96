"""The health of a URL: when it is asked, left alone and asked again; in the endpoint itself and with real servers."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime

import pytest

from openrlhf_gtpo.rewards import endpoint
from openrlhf_gtpo.rewards.endpoint import Backoff, Endpoint
from openrlhf_gtpo.rewards.protocols import Failure, GradeProtocol, OpenRLHFProtocol

from .asking import ask, error_of, lines, outcomes, reward_client
from .fake_reward_server import Answer, FakeRewardServer, Post, free_port

# The endpoint itself; times are made up


URL = "http://a/v1/grade"
GONE = Failure("answered HTTP 503")


def an_endpoint(url: str = URL, longest: float = 1000.0) -> Endpoint:
    return Endpoint(url, Backoff(longest))


def pause(one: Endpoint, now: float) -> float:
    return one.held_until - now


def test_a_pause_doubles_with_every_failure_in_a_row_up_to_the_longest_and_is_up_to_half_shorter_by_chance():
    pauses = Backoff(1.0)
    for failures, longest in [(1, 0.25), (2, 0.5), (3, 1.0), (4, 1.0), (10_000, 1.0)]:
        found = [pauses.seconds(failures) for _ in range(200)]
        assert longest / 2 <= min(found) < max(found) <= longest


def test_a_url_that_failed_is_left_alone_and_then_gets_one_request_at_a_time_until_one_succeeds():
    one = an_endpoint()
    one.failed(GONE, sent_at=0.0, now=10.0)
    assert 0.125 <= pause(one, 10.0) <= 0.25
    assert not one.is_free(10.0)
    later = one.held_until
    assert one.is_free(later)
    one.in_flight = 1
    assert not one.is_free(later), "one at a time"
    one.succeeded(sent_at=later, now=later)
    assert one.is_free(later)


def test_requests_that_were_open_together_fail_as_one():
    one = an_endpoint()
    for now in (10.0, 10.1, 10.2):
        one.failed(GONE, sent_at=9.0, now=now)
    assert pause(one, 10.0) <= 0.25, "one failure in a row, and not three"
    one.failed(GONE, sent_at=11.0, now=11.0)
    assert 0.25 <= pause(one, 11.0) <= 0.5


def test_a_success_sent_before_a_failure_was_known_ends_the_row():
    one = an_endpoint()
    one.failed(GONE, sent_at=9.0, now=10.0)
    one.succeeded(sent_at=9.5, now=10.5)
    one.failed(GONE, sent_at=12.0, now=12.0)
    assert pause(one, 12.0) <= 0.25, "the first of a new row"


def test_a_server_that_asks_for_more_time_gets_it():
    one = an_endpoint(longest=0.01)
    one.failed(Failure("answered HTTP 429", retry_after=30.0), sent_at=0.0, now=5.0)
    assert one.held_until == 35.0


@pytest.mark.parametrize(
    ("url", "asked", "label", "protocol"),
    [
        ("http://a", "http://a/v1/grade", "http://a/v1/grade", GradeProtocol),
        ("http://a/p/v1/grade/", "http://a/p/v1/grade", "http://a/p/v1/grade", GradeProtocol),
        ("http://a/v1/grade?k=s#f", "http://a/v1/grade?k=s", "http://a/v1/grade", GradeProtocol),
        ("https://a:1/get_reward/", "https://a:1/get_reward/", "https://a:1/get_reward/", OpenRLHFProtocol),
        ("http://a/v1/grader", "http://a/v1/grader", "http://a/v1/grader", OpenRLHFProtocol),
    ],
)
def test_the_path_chooses_the_protocol_and_messages_have_no_query(url: str, asked: str, label: str, protocol: type):
    one = an_endpoint(url)
    assert (one.url, one.label, one.protocol) == (asked, label, protocol)


@pytest.mark.parametrize(
    ("path", "failure", "items", "single"),
    [
        ("/get_reward", Failure("no", divisible=True, answered=True), 2, True),
        ("/get_reward", Failure("no", divisible=True, answered=True), 1, False),
        ("/get_reward", Failure("no", divisible=True), 2, False),
        ("/get_reward", Failure("no", answered=True), 2, False),
        ("/v1/grade", Failure("no", divisible=True, answered=True), 2, False),
    ],
)
def test_only_a_refused_batch_in_openrlhfs_protocol_shows_a_server_for_single_queries(
    path: str, failure: Failure, items: int, single: bool
):
    one = an_endpoint("http://a" + path)
    assert one.takes_single_items_only(failure, items) == one.single_only == single


# Real servers


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


async def test_the_load_is_spread_over_all_servers():
    with FakeRewardServer() as a, FakeRewardServer() as b:
        async with reward_client(a.url, b.url, batch_size=4) as client:
            got = await outcomes(client, *(ask(i) for i in range(32)))
        assert [reward.reward for reward in got] == [float(i) for i in range(32)]
        assert [len(a.posts), len(b.posts)] == [4, 4]


async def test_a_dead_server_is_failed_over_without_waiting_for_its_backoff(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(endpoint, "FIRST_BACKOFF", 600.0)
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


async def test_the_query_of_a_url_is_not_shown():
    async with reward_client(f"http://127.0.0.1:{free_port()}/get_reward?key=secret", deadline=0) as client:
        error = await error_of(client, ask(1))
    assert "/get_reward" in str(error)
    assert "secret" not in str(error) + error.url
