"""What training asks of its reward services before it starts anything."""

import pytest

from math_reward.client import Settings
from openrlhf_gtpo.rewards.embedded import EmbeddedService
from openrlhf_gtpo.rewards.probe import ServiceUnusable, doubtful_services

from ...fake_reward_server import FakeRewardServer, free_port, graded
from ...refusals import assert_refusal


def ask(*urls: str, token: str | None = None) -> list[str]:
    return doubtful_services(Settings(urls, token=token))


@pytest.fixture
def nobody() -> str:
    """A URL where nothing listens."""
    return f"http://127.0.0.1:{free_port()}"


def test_a_service_that_grades_is_asked_once_and_nothing_is_said(service: EmbeddedService) -> None:
    assert ask(service.url, token=service.token) == []


def test_where_no_service_answers_the_run_is_refused_with_a_sentence_for_each(
    service: EmbeddedService, nobody: str
) -> None:
    with pytest.raises(ServiceUnusable) as refused:
        ask(nobody, service.url, token="wrong")
    down, refuses = str(refused.value).splitlines()
    assert_refusal(down, f"{nobody}/v1/grade", f"port {nobody.rsplit(':')[-1]} of", "`math-reward serve`")
    assert_refusal(refuses, service.url, "token of MATH_REWARD_TOKEN")


def test_one_of_two_services_that_is_down_is_told_and_the_run_goes_on(service: EmbeddedService, nobody: str) -> None:
    (said,) = ask(service.url, nobody, token=service.token)
    assert_refusal(said, f"{nobody}/v1/grade")


def test_a_service_that_grades_something_else_is_told_and_the_run_goes_on() -> None:
    with FakeRewardServer(always=graded(0, 0)) as server:
        (said,) = ask(server.url)
    assert_refusal(said, f"{server.url}/v1/grade", "does not grade")
    assert len(server.posts) == 1


def test_minus_one_for_a_wrong_answer_is_a_verdict_too() -> None:
    with FakeRewardServer(always=graded(1, -1)) as server:
        assert ask(server.url) == []
