"""The health of a service: when it is asked, left alone and asked again; times are made up."""

import random

import pytest

from math_reward.client import Settings, Unavailable, endpoints
from math_reward.client.endpoints import Endpoint

GONE = Unavailable("answered HTTP 503")


def endpoint() -> Endpoint:
    url = "http://a/v1/grade?key=secret"
    return Endpoint(url, Settings((url,), max_backoff=1000.0))


def pause(one: Endpoint, now: float) -> float:
    return one.held_until - now


def test_a_pause_doubles_with_every_failure_in_a_row_up_to_the_longest_and_is_up_to_half_shorter_by_chance() -> None:
    for failures, longest in [(1, 0.25), (2, 0.5), (3, 1.0), (4, 1.0), (10_000, 1.0)]:
        found = [endpoints.pause(failures, 1.0) for _ in range(200)]
        assert longest / 2 <= min(found) < max(found) <= longest


def test_a_pause_takes_nothing_from_the_seeded_generator_of_a_run() -> None:
    state = random.getstate()
    endpoints.pause(1, 1.0)
    assert random.getstate() == state


def test_a_service_that_failed_is_left_alone_and_then_gets_one_request_at_a_time_until_one_succeeds() -> None:
    one = endpoint()
    one.failed(GONE, sent_at=0.0, now=10.0)
    assert 0.125 <= pause(one, 10.0) <= 0.25
    assert not one.is_free(10.0)
    later = one.held_until
    assert one.is_free(later)
    one.in_flight = 1
    assert not one.is_free(later), "one at a time"
    one.succeeded(sent_at=later)
    assert one.is_free(later)


def test_requests_that_were_open_together_fail_as_one() -> None:
    one = endpoint()
    for now in (10.0, 10.1, 10.2):
        one.failed(GONE, sent_at=9.0, now=now)
    assert pause(one, 10.0) <= 0.25, "one failure in a row, and not three"
    one.failed(GONE, sent_at=11.0, now=11.0)
    assert 0.25 <= pause(one, 11.0) <= 0.5


def test_a_success_sent_before_a_failure_was_known_ends_the_row() -> None:
    one = endpoint()
    one.failed(GONE, sent_at=9.0, now=10.0)
    one.succeeded(sent_at=9.5)
    one.failed(GONE, sent_at=12.0, now=12.0)
    assert pause(one, 12.0) <= 0.25, "the first of a new row"


def test_a_failing_service_is_named_once_a_minute_without_a_secret_of_its_url(
    caplog: pytest.LogCaptureFixture,
) -> None:
    one = endpoint()
    for now in (1.0, 2.0, 60.0, 61.0):
        one.failed(GONE, sent_at=now, now=now)
    assert (one.url, one.label) == ("http://a/v1/grade?key=secret", "http://a/v1/grade")
    assert [one.label in record.getMessage() for record in caplog.records] == [True, True]
    assert "secret" not in caplog.text
