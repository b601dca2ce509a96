"""The test request to reward services: the real one, none, and services that misbehave."""

from collections.abc import Callable
from pathlib import Path

import pytest

from math_reward.client.settings import TOKEN_FILE_VARIABLE, TOKEN_VARIABLE
from openrlhf_gtpo.checks import Finding
from openrlhf_gtpo.checks.services import check
from openrlhf_gtpo.rewards.embedded import EmbeddedService

from ...fake_reward_server import Answer, FakeRewardServer, Post, free_port, graded
from ...refusals import assert_refusal


def ask(*urls: str) -> list[Finding]:
    flags = {"train.agent_func_path": None, "reward.ca_file": None, "reward.remote_url": ",".join(urls) or None}
    return list(check(flags))


def test_the_real_service_grades_both_answers_by_either_protocol(
    service: EmbeddedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, service.token)
    for url in (service.url, service.url.replace("/v1/grade", "/get_reward")):
        (found,) = ask(url)
        assert (found.check, found.state) == (f"reward {url}", "ok"), found.sentence


def test_a_wrong_token_is_told_and_not_printed(
    service: EmbeddedService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "a-guess")
    (found,) = ask(service.url)
    assert found.state == "fault"
    assert_refusal(found.sentence, service.url, "token")
    assert "a-guess" not in found.sentence
    monkeypatch.delenv(TOKEN_VARIABLE)
    (tmp_path / "token").write_text(f"{service.token}\n")
    monkeypatch.setenv(TOKEN_FILE_VARIABLE, str(tmp_path / "token"))
    assert [found.state for found in ask(service.url)] == ["ok"]


REFUSED: list[tuple[Callable[[Post], Answer], str, str]] = [
    (graded(0.0, 0.0), "warning", "right answer the score 0"),
    (graded(1.0, 1.0), "warning", "wrong one 1"),
    (lambda post: Answer(500, {}), "fault", "HTTP 500"),
    (lambda post: Answer(body=b"<html>"), "fault", "HTML"),
]


@pytest.mark.parametrize(("answer", "state", "named"), REFUSED)
def test_a_service_that_does_not_grade_is_told(answer: Callable[[Post], Answer], state: str, named: str) -> None:
    with FakeRewardServer(always=answer) as server:
        (found,) = ask(server.url)
    assert found.state == state
    assert_refusal(found.sentence, server.url, named)


def test_a_service_that_is_down_is_a_fault_only_where_all_are() -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    (found,) = ask(nobody)
    assert found.state == "fault"
    assert_refusal(found.sentence, "could not be reached (", "): check that it runs, its URL and the firewall.")
    with FakeRewardServer(always=graded(1, 0)) as server:
        assert [found.state for found in ask(nobody, server.url)] == ["warning", "ok"]
    assert ask("rewards.py") == ask() == [], "of a program and the built-in service there is nothing to ask"
