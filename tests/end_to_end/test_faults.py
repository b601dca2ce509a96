"""Faults that end a run, for real: what is left is one sentence and no process."""

import re
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ..fake_reward_server import Answer, FakeRewardServer, Post
from .loop import PROMPTS, SAMPLES, Ended, Run, Training, check_prompts, ended_by, own_gap, stopped_with

HERE = Path(__file__).parent
pytestmark = pytest.mark.engine


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
    """Plain GRPO. With --reward.on_failure drop_group one request of the first step fails; after two steps the disk is
    full."""
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
        training = Training(policy, folder, "group_norm", 30, *flags, is_preloaded=True)
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
    return Full(before, [line for line in Run.rollouts_in(folder) if line["step"] <= 2], said)


def test_with_drop_group_a_group_that_lost_a_reward_is_counted_and_another_prompt_takes_its_place(full: Full) -> None:
    assert sum(line["reward/dropped_groups"] for line in full.metrics) >= 1
    assert sum(line["reward/failed_responses"] for line in full.metrics) >= 1
    assert all(line["rollout/num_samples"] == PROMPTS * SAMPLES for line in full.metrics)
    check_prompts(full.rollouts, 2)


def test_group_norm_trains_as_grpo_with_our_entropy_metrics(full: Full) -> None:
    for line in full.metrics:
        assert line["entropy/token_mean"] > 0
        assert not any(name.startswith("shaped_reward/") for name in line)
        assert line["actor_grad_norm"] > 0


def test_a_full_disk_stops_the_run_with_one_sentence(full: Full) -> None:
    said = full.last_words
    assert re.match(r"openrlhf-gtpo train: error: OSError: .*No space left on device.*--ckpt\.load_enable", said), said


@pytest.fixture(scope="module")
def interrupted(policy: Path, tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """GTPO whose broadcast of the weights does nothing, interrupted after eight steps of sixty."""
    program = (str(HERE / "without_weight_sync.py"),)
    training = Training(policy, tmp_path_factory.mktemp("interrupted"), "gtpo", 60, program=program)
    return ended_by(signal.SIGINT, training, 8)


def test_without_weight_sync_rollout_and_policy_drift_apart(interrupted: Ended) -> None:
    """Shows that the test of the weights can fail: the same loop whose broadcast does nothing."""
    gaps = [line["mismatch/logprob_gap"] for line in interrupted.metrics]
    assert gaps[0] <= own_gap(), "before the first update both have the same weights"
    assert gaps[-1] >= 1e-2, gaps


def test_an_interrupted_run_leaves_no_process(interrupted: Ended) -> None:
    assert interrupted.processes >= 4
    assert interrupted.status == 130, interrupted.log
    assert interrupted.survivors == []
