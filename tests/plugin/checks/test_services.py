"""The round trip to a reward service: the real one, none, and services that misbehave."""

import contextlib
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
        assert found.sentence.startswith("It gave a right answer 1 and a wrong one 0, in ")
        assert (found.name, working is not None) == (f"reward {url}", True)


def test_a_missing_or_wrong_token_is_told(service: EmbeddedService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    (found,), working = check(service.url)
    assert (found.state, working) == ("fault", None)
    assert found.sentence.startswith("It requires a token: set MATH_REWARD_TOKEN to ")
    monkeypatch.setenv(TOKEN_VARIABLE, "a-guess")
    (found,), _ = check(service.url)
    assert found.sentence.startswith("It refuses the token of MATH_REWARD_TOKEN: use one that it knows")
    monkeypatch.setenv(TOKEN_VARIABLE, "with a blank")
    (found,), _ = check(service.url)
    assert "MATH_REWARD_TOKEN" in found.sentence
    assert "one word" in found.sentence
    assert "with a blank" not in found.sentence


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
    assert found.sentence.startswith("It refuses the token of MATH_REWARD_TOKEN_FILE: use one that it knows")
    monkeypatch.setenv(TOKEN_FILE_VARIABLE, str(tmp_path / "none"))
    (found,), working = check(service.url)
    assert (found.state, found.name, working) == ("fault", "reward token", None)
    assert found.sentence.endswith(
        "none, the file of MATH_REWARD_TOKEN_FILE, cannot be read: No such file or directory."
    )


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


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        (0.0, 0.0, "It gave a right answer the score 0 instead of 1"),
        (1.0, 1.0, "It gave a wrong answer the score 1 instead of 0"),
    ],
)
def test_a_service_that_grades_wrongly_is_a_fault(right: float, wrong: float, words: str) -> None:
    with FakeRewardServer(always=graded(right, wrong)) as server:
        (found,), working = check(server.url)
    assert (found.state, working) == ("fault", None)
    assert found.sentence.startswith(words)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(500, {}), "answered HTTP 500. Check the service's log."),
        (Answer(404, {}), "HTTP 404 (fix the path of the URL)."),
        (Answer(body=b"<html>"), "answered HTML that is not JSON. Check the service's log."),
        (Answer(drop=True), "(if it has TLS, write https:// in its URL). Check the service's log."),
        (Answer(400, {}), "refused the request with HTTP 400 (check the service's log)."),
    ],
)
def test_a_service_that_answers_something_else_is_told_in_the_clients_words(answer: Answer, words: str) -> None:
    with FakeRewardServer(always=lambda post: answer) as server:
        (found,), _ = check(server.url)
    assert found.state == "fault"
    assert found.sentence.endswith(words)


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
