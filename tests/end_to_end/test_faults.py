"""Faults while a run is on, for real: what happens is one sentence or nothing, and no prompt is lost or repeated."""

import json
import os
import re
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from ..plugin.fake_reward_server import Answer, FakeRewardServer, Post
from .loop import PROMPTS, SAMPLES, Training, train

MATH_REWARD = str(Path(sys.executable).with_name("math-reward"))


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Service:
    """The project's reward service, to be killed and started again on its port."""

    def __init__(self, token: str = "") -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.start(token)

    def start(self, token: str = "") -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MATH_REWARD")}
        self.process = subprocess.Popen(
            [MATH_REWARD, "serve", "--port", str(self.port), "--workers", "1"],
            env={**environment, **({"MATH_REWARD_TOKEN": token} if token else {})},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service()
    try:
        yield service
    finally:
        service.kill()


def rollouts(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "rollouts.jsonl").read_text().splitlines()]


def check_rewards(lines: list[dict[str, Any]]) -> None:
    """Each response has the verdict that it deserves, and no other's."""
    assert {line["correct"] for line in lines} == {True, False}
    for line in lines:
        assert line["correct"] == (f"\\boxed{{{line['label']}}}" in "".join(line["tokens"])), line


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
            answer = httpx.post(f"{self.url}{post.path}", json=post.payload, timeout=30)
        except httpx.HTTPError:
            return Answer(drop=True)  # the service is down: so is what stands before it
        with self._lock:
            self.passed_on += len(post.texts)
        return Answer(answer.status_code, answer.content, delay=self.SLOW if number == 2 else 0.0)


def test_a_run_rides_through_every_fault_of_the_reward_service_and_loses_nothing(
    policy: Path, service: Service, tmp_path: Path
) -> None:
    """500, 429, 503, rubbish, a wrong length, NaN, a hang-up, ten seconds' delay, one dead URL of two, and the service
    killed with -9 and started again twenty seconds later."""
    steps = 8
    trouble = Trouble(service.url)
    with FakeRewardServer(always=trouble) as before:
        urls = f"http://127.0.0.1:{free_port()},{before.url}/v1/grade"
        flags = [f"--reward.remote_url={urls}", "--reward.deadline=120", f"--shaping.save_rollouts={PROMPTS}"]
        training = Training(policy, tmp_path, "gtpo", steps, *flags, "--reward.batch_size=16")
        try:
            training.wait_for_steps(3)
            service.kill()
            time.sleep(20)
            assert len(training.metrics()) <= 5, "it waits for the rewards"
            service.start()
            run = training.end().check()
        finally:
            training.kill()
    assert trouble.faults == len(Trouble.FAULTS), "every fault was injected"
    assert [line["step"] for line in run.metrics] == list(range(1, steps + 1))
    for line in run.metrics:
        assert line["rollout/num_samples"] == PROMPTS * SAMPLES
        assert (line["reward/failed_responses"], line["reward/dropped_groups"]) == (0, 0)
    assert max(line["reward/wait_seconds_max"] for line in run.metrics) >= 15, "the outage shows in the metrics"
    assert run.metrics[-1]["reward/retries_total"] >= len(Trouble.FAULTS)
    lines = rollouts(tmp_path)
    check_rewards(lines)
    check_prompts(lines, steps)


def process_of(training: Training, name: str) -> psutil.Process:
    """The Ray actor of a class, which Ray gives the title ray::CLASS..."""
    (found,) = [p for p in training.processes() if re.match(rf"ray::{name}\b", " ".join(p.cmdline()))]
    return found


def stopped_with(training: Training) -> str:
    """The last line of a run that had to stop."""
    run = training.end()
    assert run.status == 1, run.log[-3000:]
    assert "Traceback" not in run.log.splitlines()[-1]
    return run.log.strip().splitlines()[-1]


def test_a_run_that_dies_in_three_ways_is_resumed_each_time_without_losing_or_repeating_a_prompt(
    policy: Path, tmp_path: Path
) -> None:
    """The token is rotated, then the engine is killed with -9, then the policy's actor; each time the run stops with
    one sentence, and the same command with --ckpt.load_enable goes on."""
    steps = 8
    old, new = secrets.token_hex(8), secrets.token_hex(8)
    service = Service(old)
    flags = [f"--reward.remote_url={service.url}", "--reward.deadline=30", f"--shaping.save_rollouts={PROMPTS}"]
    flags += ["--ckpt.save_steps=1", "--ckpt.max_num=2", f"--ckpt.path={tmp_path / 'state'}"]

    def start(*more: str, token: str) -> Training:
        return Training(policy, tmp_path, "gtpo", steps, *flags, *more, MATH_REWARD_TOKEN=token)

    training = start(token=old)
    try:
        training.wait_for_steps(1)
        service.kill()
        service.start(new)
        said = stopped_with(training)
        assert "401" in said, said
        assert "--ckpt.load_enable" in said, said
        done = len(training.metrics())

        training = start("--ckpt.load_enable", token=new)
        training.wait_for_steps(done + 1)
        process_of(training, "RolloutActor").kill()
        said = stopped_with(training)
        assert re.match(r"openrlhf-gtpo train: error: The process of RolloutRayActor .*died", said), said
        assert "--ckpt.load_enable goes on after step" in said, said
        done = len(training.metrics())

        training = start("--ckpt.load_enable", token=new)
        training.wait_for_steps(done + 1)
        process_of(training, r"(Cpu)?Policy(Model)?Actor").kill()
        said = stopped_with(training)
        assert re.match(r"openrlhf-gtpo train: error: The process of PolicyModelActor .*died", said), said

        training = start("--ckpt.load_enable", token=new)
        run = training.end().check()
    finally:
        training.kill()
        service.kill()
    assert [line["step"] for line in run.metrics] == list(range(1, steps + 1))
    lines = rollouts(tmp_path)
    check_rewards(lines)
    check_prompts(lines, steps)


def test_a_full_disk_stops_the_run_with_one_sentence(policy: Path, tmp_path: Path) -> None:
    training = Training(policy, tmp_path, "gtpo", 30, "--ckpt.save_steps=1", f"--ckpt.path={tmp_path / 'state'}")
    try:
        training.wait_for_steps(2)
        metrics = tmp_path / "metrics.jsonl"
        metrics.rename(tmp_path / "before.jsonl")
        metrics.symlink_to("/dev/full")  # where the kernel answers every write with "no space left on device"
        training.process.wait(120)
        metrics.unlink()  # of which there is no end when it is read
        said = stopped_with(training)
    finally:
        training.kill()
    assert said.startswith("openrlhf-gtpo train: error: A disk is full, so training stopped"), said
    assert "--ckpt.load_enable goes on after step" in said


def test_with_drop_group_a_group_that_lost_a_reward_is_counted_and_another_prompt_takes_its_place(
    policy: Path, tmp_path: Path
) -> None:
    count = 0

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
        flags += [f"--shaping.save_rollouts={PROMPTS}", "--train.max_steps=2"]
        run = train(policy, tmp_path, "gtpo", 5, *flags).check()
    assert sum(line["reward/dropped_groups"] for line in run.metrics) >= 1
    assert sum(line["reward/failed_responses"] for line in run.metrics) >= 1
    assert all(line["rollout/num_samples"] == PROMPTS * SAMPLES for line in run.metrics)
    check_prompts(rollouts(tmp_path), 2)
