"""The round trip to a reward service: the real one, none, and services that misbehave."""

import contextlib
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from math_reward.client import Settings as ClientSettings
from math_reward.client.settings import TOKEN_FILE_VARIABLE, TOKEN_VARIABLE
from openrlhf_gtpo.checks.findings import Finding
from openrlhf_gtpo.checks.services import check_rewards
from openrlhf_gtpo.rewards.embedded import EmbeddedService
from openrlhf_gtpo.settings import Settings

from ...fake_reward_server import Answer, FakeRewardServer, Post, graded
from ...refusals import assert_refusal


def check(*urls: str) -> tuple[list[Finding], ClientSettings | None]:
    flags = {"train.agent_func_path": None, "reward.model_name_or_path": None, "reward.ca_file": None}
    flags |= {"reward.timeout": 60.0, "reward.deadline": 300.0, "reward.on_failure": "retry"}
    flags |= {"reward.remote_url": ",".join(urls) or None, "reward.batch_size": 64, "reward.max_in_flight": 8}
    with contextlib.ExitStack() as cleanup:
        return check_rewards(Settings(flags), cleanup)


def test_the_real_service_grades_both_answers(service: EmbeddedService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, service.token)
    for url in (service.url, service.url.replace("/v1/grade", "/get_reward")):
        (found,), working = check(url)
        assert found.state == "ok", found.sentence
        assert (found.name, working is not None) == (f"reward {url}", True)


def test_a_missing_or_wrong_token_is_told(service: EmbeddedService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    (found,), working = check(service.url)
    assert (found.state, working) == ("fault", None)
    assert_refusal(found.sentence, "requires", "MATH_REWARD_TOKEN")
    for token, said in (("a-guess", "refuses"), ("with a blank", "one word")):
        monkeypatch.setenv(TOKEN_VARIABLE, token)
        (found,), working = check(service.url)
        assert (found.state, working) == ("fault", None)
        assert_refusal(found.sentence, said, "MATH_REWARD_TOKEN")
        assert token not in found.sentence


def test_a_token_in_a_file_is_read_as_training_reads_it(
    service: EmbeddedService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    path = tmp_path / "token"
    path.write_text(f"{service.token}\n")
    monkeypatch.setenv(TOKEN_FILE_VARIABLE, str(path))
    (found,), working = check(service.url)
    assert (found.state, working is not None) == ("ok", True), found.sentence
    path.write_text("another")
    (found,), _ = check(service.url)
    assert_refusal(found.sentence, "refuses", "MATH_REWARD_TOKEN_FILE")
    monkeypatch.setenv(TOKEN_FILE_VARIABLE, str(tmp_path / "none"))
    (found,), working = check(service.url)
    assert (found.state, found.name, working) == ("fault", "reward token", None)
    assert_refusal(found.sentence, str(tmp_path / "none"), "MATH_REWARD_TOKEN_FILE", "No such file or directory")


def test_without_a_url_the_built_in_service_is_started_asked_and_stopped() -> None:
    before = set(psutil.Process().children(recursive=True))
    embedded = dict.fromkeys(("reward.remote_url", "train.agent_func_path", "reward.model_name_or_path"))
    with contextlib.ExitStack() as cleanup:
        (found,), working = check_rewards(Settings(embedded), cleanup)
        assert (found.name, found.state) == ("reward service", "ok"), found.sentence
        assert working is not None
        started = set(psutil.Process().children(recursive=True)) - before
        assert started
    _, alive = psutil.wait_procs(started, timeout=120)
    assert alive == []


REFUSED: list[tuple[Callable[[Post], Answer], str]] = [
    (graded(0.0, 0.0), "right answer the score 0"),
    (graded(1.0, 1.0), "wrong answer the score 1"),
    (lambda post: Answer(500, {}), "HTTP 500"),
    (lambda post: Answer(404, {}), "HTTP 404"),
    (lambda post: Answer(body=b"<html>"), "HTML"),
    (lambda post: Answer(drop=True), "https://"),
    (lambda post: Answer(400, {}), "HTTP 400"),
]


@pytest.mark.parametrize(("answer", "named"), REFUSED)
def test_a_service_that_grades_wrongly_or_does_not_answer_is_a_fault(
    answer: Callable[[Post], Answer], named: str
) -> None:
    with FakeRewardServer(always=answer) as server:
        (found,), working = check(server.url)
    assert (found.state, working) == ("fault", None)
    assert_refusal(found.sentence, named)


def test_each_url_is_looked_at_and_one_with_verdicts_grades_the_data() -> None:
    def numbers(post: Post) -> Answer:
        return Answer(body={"rewards": [float("42" in query) for query in post.texts]})

    with FakeRewardServer(always=graded(0, 0)) as bad, FakeRewardServer(always=numbers) as plain:  # noqa: SIM117
        with FakeRewardServer(always=graded(1, 0)) as good:
            findings, working = check(bad.url, f"{plain.url}/get_reward", good.url)
    assert [found.state for found in findings] == ["fault", "ok", "ok"]
    assert working is not None
    assert working.urls == (f"{good.url}/v1/grade",)


def test_rewards_of_a_program_are_not_asked_for() -> None:
    (found,), working = check("rewards.py")
    assert (found.state, working) == ("skipped", None)
