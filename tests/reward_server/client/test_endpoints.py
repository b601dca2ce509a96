"""The health of a service: when it is asked, left alone and asked again; times are made up."""

import random

import pytest

from math_reward.client import Settings, Unavailable, endpoints
from math_reward.client.endpoints import Endpoint

GONE = Unavailable("answered HTTP 503")


def endpoint(**limits: float) -> Endpoint:
    url = "http://a/v1/grade?key=secret"
    return Endpoint(url, Settings((url,), max_backoff=1000.0, **limits))


def test_a_pause_doubles_up_to_the_longest_is_up_to_half_shorter_by_chance_and_disturbs_no_seed() -> None:
    state = random.getstate()
    for failures, longest in [(1, 0.25), (2, 0.5), (3, 1.0), (4, 1.0), (10_000, 1.0)]:
        found = [endpoints.pause(failures, 1.0) for _ in range(200)]
        assert longest / 2 <= min(found) < max(found) <= longest
    assert random.getstate() == state, "a run's seeded generator"


def test_a_service_that_failed_is_left_alone_and_then_gets_one_request_at_a_time_until_one_succeeds() -> None:
    one = endpoint()
    one.in_flight = 2
    for now in (10.0, 10.1):  # open together, so they fail as one
        one.failed(GONE, now)
    later = one.held_until
    assert 10.125 <= later <= 10.25
    one.in_flight = 0
    assert [one.is_free(now) for now in (10.0, later)] == [False, True]
    one.in_flight = 1
    assert not one.is_free(later), "one at a time"
    one.failed(GONE, later)
    assert 0.25 <= one.held_until - later <= 0.5, "the second in a row"
    one.succeeded()
    later = one.held_until
    assert one.is_free(later)
    one.failed(GONE, later)
    assert one.held_until - later <= 0.25, "the first of a new row"


@pytest.mark.parametrize(("deadline", "longest"), [(300.0, 60.0), (5.0, 5.0), (0.0, 60.0)])
def test_a_service_decides_how_long_it_is_left_alone_up_to_a_minute_and_to_the_deadline(
    deadline: float, longest: float
) -> None:
    for asked, held in [(2.0, 2.0), (1e6, longest), (float("inf"), longest)]:
        one = endpoint(deadline=deadline)
        one.failed(Unavailable("answered HTTP 503", retry_after=asked), 10.0)
        assert one.held_until == 10.0 + held


def test_a_failing_service_is_named_once_a_minute_without_a_secret_of_its_url(
    caplog: pytest.LogCaptureFixture,
) -> None:
    one = endpoint()
    for now in (1.0, 2.0, 60.0, 61.0):
        one.failed(GONE, now)
    assert (one.url, one.label) == ("http://a/v1/grade?key=secret", "http://a/v1/grade")
    assert [one.label in record.getMessage() for record in caplog.records] == [True, True]
    assert "secret" not in caplog.text
