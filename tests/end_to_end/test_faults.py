"""Faults while a run is on, for real: what happens is one sentence or nothing, and no prompt is lost or repeated."""

import json
import os
import re
import secrets
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from ..fake_reward_server import Answer, FakeRewardServer, Post, free_port
from .loop import PROMPTS, SAMPLES, Run, Training, apart, is_right, train

pytestmark = pytest.mark.engine

MATH_REWARD = str(Path(sys.executable).with_name("math-reward"))


class Service:
    """The project's reward service, to be killed and started again on its port."""

    def __init__(self, token: str = "") -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.start(token)

    def start(self, token: str = "") -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MATH_REWARD")}
        self.process = subprocess.Popen(
            [MATH_REWARD, "serve", "--port", str(self.port), "--workers", "1", "--exit-on-stdin-close"],
            stdin=subprocess.PIPE,  # so that it ends with a pytest that is killed
            env={**environment, **({"MATH_REWARD_TOKEN": token} if token else {})},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def rollouts(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "rollouts.jsonl").read_text().splitlines()]


def check_rewards(lines: list[dict[str, Any]]) -> None:
    """Each response has the verdict that it deserves, and no other's."""
    assert {line["correct"] for line in lines} == {True, False}
    for line in lines:
        assert line["correct"] == is_right(line), line


def check_prompts(lines: list[dict[str, Any]], steps: int) -> None:
    """Every step has its groups, and no prompt was answered twice."""
    for step in range(1, steps + 1):
        prompts = [line["prompt"] for line in lines if line["step"] == step]
        assert len(prompts) == PROMPTS * SAMPLES, f"step {step}"
    groups = {(line["step"], line["group"]) for line in lines}
    assert len({line["prompt"] for line in lines}) == len(groups) == steps * PROMPTS


class Trouble:
    """Stands before the real service and, now and then, answers in its place."""

    FAULTS = (
        Answer(500),
        Answer(429, headers={"Retry-After": "1"}),
        Answer(503),
        Answer(200, b"<html>Bad gateway</html>"),
        Answer(200, {"results": []}),
        Answer(200, b'{"results": [{"reward": NaN, "correct": true}]}'),
        Answer(drop=True),
    )
    EVERY = 3
    SLOW = 10.0

    def __init__(self, url: str) -> None:
        self.url = url
        self.posts = 0
        self.faults = 0
        self.passed_on = 0
        self._lock = threading.Lock()

    def __call__(self, post: Post) -> Answer:
        with self._lock:
            self.posts += 1
            number = self.posts
            if number % self.EVERY == 0 and self.faults < len(self.FAULTS):
                self.faults += 1
                return self.FAULTS[self.faults - 1]
        try:
            token = {name: value for name, value in post.headers.items() if name.lower() == "authorization"}
            answer = httpx.post(f"{self.url}{post.path}", json=post.payload, headers=token, timeout=120)
        except httpx.HTTPError:
            return Answer(drop=True)  # the service is down: so is what stands before it
        with self._lock:
            self.passed_on += len(post.texts)
        return Answer(answer.status_code, answer.content, delay=self.SLOW if number == 2 else 0.0)


def process_of(training: Training, name: str) -> psutil.Process:
    """The Ray actor of a class, which Ray gives the title ray::CLASS..."""
    (found,) = [p for p in training.processes() if re.match(rf"ray::{name}\b", " ".join(p.cmdline()))]
    return found


def stopped_with(training: Training) -> str:
    """The last line of a run that had to stop."""
    run = training.end()
    assert run.status == 1, run.log[-3000:]
    return (run.folder / "log").read_text().strip().splitlines()[-1]


@dataclass
class Story:
    """What became of one run through all its troubles."""

    trouble: Trouble
    before_the_first_death: list[dict[str, Any]]
    """The metrics of the steps until then."""
    last_words: list[str]
    """The last line of the run, each time that it died."""
    end: Run


STEPS = 11


@pytest.fixture(scope="module")
def story(policy: Path, tmp_path_factory: pytest.TempPathFactory) -> Story:
    """The reward service answers 500, 429, 503, rubbish, a wrong length and NaN, hangs up and is ten seconds late; one
    URL of two is dead; and the service is killed with -9 and started again twenty seconds later. Then the token is
    rotated, then the engine is killed with -9, then the policy's actor; each time the same command goes on with
    --ckpt.load_enable."""
    folder, token = tmp_path_factory.mktemp("story"), secrets.token_hex(8)
    service = Service()
    trouble = Trouble(service.url)
    with FakeRewardServer(always=trouble) as before:
        flags = [f"--reward.remote_url=http://127.0.0.1:{free_port()},{before.url}/v1/grade", "--reward.batch_size=16"]
        flags += ["--reward.deadline=120", f"--shaping.save_rollouts={PROMPTS}"]
        flags += ["--ckpt.save_steps=1", "--ckpt.max_num=2", f"--ckpt.path={folder / 'state'}"]
        training = Training(policy, folder, "gtpo", STEPS, *flags, is_preloaded=True)
        last_words = []

        def resume() -> Training:
            done = len(training.metrics())
            again = [*flags, "--ckpt.load_enable"]
            resumed = Training(policy, folder, "gtpo", STEPS, *again, is_preloaded=True, MATH_REWARD_TOKEN=token)
            resumed.wait_for_steps(done + 1)
            return resumed

        try:
            training.wait_for_steps(3)
            service.kill()
            time.sleep(20)
            assert len(training.metrics()) <= 5, "it waits for the rewards"
            service.start()
            training.wait_for_steps(6)
            service.kill()
            service.start(token)
            last_words.append(stopped_with(training))
            metrics = training.metrics()
            for actor in (r"(Cpu)?Rollout(Ray)?Actor", r"(Cpu)?Policy(Model)?Actor"):
                training = resume()
                process_of(training, actor).kill()
                last_words.append(stopped_with(training))
            training = resume()
            end = training.end().check()
        finally:
            training.kill()
            service.kill()
    return Story(trouble, metrics, last_words, end)


def test_a_run_rides_through_every_fault_of_the_reward_service(story: Story) -> None:
    assert story.trouble.faults == len(Trouble.FAULTS), "every fault was injected"
    lines = story.before_the_first_death
    assert [line["step"] for line in lines[:6]] == list(range(1, 7))
    for line in lines:
        assert line["rollout/num_samples"] == PROMPTS * SAMPLES
        assert (line["reward/failed_responses"], line["reward/dropped_groups"]) == (0, 0)
    assert max(line["reward/wait_seconds_max"] for line in lines) >= 15, "the outage shows in the metrics"
    assert lines[-1]["reward/retries_total"] >= len(Trouble.FAULTS)


def test_whatever_happened_the_run_is_the_one_without_faults_to_the_last_bit(
    story: Story, policy: Path, tmp_path: Path
) -> None:
    """That one is neither stopped nor resumed, and graded by the built-in service."""
    undisturbed = train(policy, tmp_path, "gtpo", STEPS, f"--shaping.save_rollouts={PROMPTS}").check()
    assert apart(story.end, undisturbed) == []


def test_a_token_that_is_rotated_stops_the_run_with_one_sentence(story: Story) -> None:
    said = story.last_words[0]
    assert "401" in said, said
    assert "--ckpt.load_enable" in said, said


@pytest.mark.parametrize(("death", "actor"), [(1, r"(Cpu)?Rollout(Ray)?Actor"), (2, r"(Cpu)?Policy(Model)?Actor")])
def test_an_actor_that_is_killed_stops_the_run_with_one_sentence_that_names_it(
    story: Story, death: int, actor: str
) -> None:
    said = story.last_words[death]
    assert re.match(rf"openrlhf-gtpo train: error: .* {actor} .*died.*--ckpt\.load_enable", said), said


def test_no_prompt_and_no_reward_is_lost_or_counted_twice_whatever_happened(story: Story) -> None:
    assert [line["step"] for line in story.end.metrics] == list(range(1, STEPS + 1))
    lines = rollouts(story.end.folder)
    check_rewards(lines)
    check_prompts(lines, STEPS)


@dataclass
class Full:
    """A run that lost a reward, and whose disk was full later."""

    metrics: list[dict[str, Any]]
    """Of the steps before the disk was full."""
    rollouts: list[dict[str, Any]]
    """Likewise."""
    last_words: str


@pytest.fixture(scope="module")
def full(policy: Path, tmp_path_factory: pytest.TempPathFactory) -> Full:
    """With --reward.on_failure drop_group one request of the first step fails; after two steps the disk is full."""
    folder, count = tmp_path_factory.mktemp("full"), 0

    def fails_once(post: Post) -> Answer:
        nonlocal count
        count += 1
        if count == 3:
            return Answer(500)
        results = []
        for item in post.payload["items"]:
            right = f"\\boxed{{{item['reference']}}}" in item["completion"]
            results.append({"reward": float(right), "correct": right, "verdict": "correct" if right else "wrong"})
        return Answer(body={"results": results})

    with FakeRewardServer(always=fails_once) as server:
        flags = [f"--reward.remote_url={server.url}/v1/grade", "--reward.on_failure=drop_group"]
        flags += [f"--shaping.save_rollouts={PROMPTS}", "--ckpt.save_steps=1", f"--ckpt.path={folder / 'state'}"]
        training = Training(policy, folder, "gtpo", 30, *flags, is_preloaded=True)
        try:
            training.wait_for_steps(2)
            metrics = folder / "metrics.jsonl"
            before = training.metrics()
            metrics.rename(folder / "before.jsonl")
            metrics.symlink_to("/dev/full")  # where the kernel answers every write with "no space left on device"
            training.process.wait(120)
            metrics.unlink()  # of which there is no end when it is read
            said = stopped_with(training)
        finally:
            training.kill()
    return Full(before, [line for line in rollouts(folder) if line["step"] <= 2], said)


def test_with_drop_group_a_group_that_lost_a_reward_is_counted_and_another_prompt_takes_its_place(full: Full) -> None:
    assert sum(line["reward/dropped_groups"] for line in full.metrics) >= 1
    assert sum(line["reward/failed_responses"] for line in full.metrics) >= 1
    assert all(line["rollout/num_samples"] == PROMPTS * SAMPLES for line in full.metrics)
    check_prompts(full.rollouts, 2)


def test_a_full_disk_stops_the_run_with_one_sentence(full: Full) -> None:
    said = full.last_words
    assert re.match(r"openrlhf-gtpo train: error: OSError: .*No space left on device.*--ckpt\.load_enable", said), said
