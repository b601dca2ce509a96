"""A guide beside the policy, in the real loop: a model on an engine of its own, and a file of worked solutions."""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from last_digit import TASK as task

from .loop import OTHER_PRECISION, PROMPTS, SAMPLES, Run, apart, train

STEPS = 3
pytestmark = pytest.mark.engine


def guided_run(policy: Path, folder: Path) -> Run:
    """GTPO over two ranks with M1 and M2, guided by the very policy that training begins with."""
    flags = [f"--guide.model={policy / 'model'}", "--guide.samples=2", "--guide.when", "all", "zero_reward"]
    flags += ["--algo.dynamic_filtering_enable", f"--train.max_steps={STEPS}", f"--data.max_samples={8 * PROMPTS}"]
    flags += ["--algo.dynamic_filtering_range", "0", "1", "--algo.advantage.is_correction_level=token"]
    flags += ["--actor.num_gpus_per_node=2", "--rollout.micro_batch_size=8", "--actor.min_lr_ratio=1"]
    flags += ["--shaping.save_rollouts=20"]
    return train(policy, folder, "gtpo", STEPS, *flags).check()


@pytest.fixture(scope="module")
def guided(policy: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return guided_run(policy, tmp_path_factory.mktemp("guided"))


def test_the_same_command_gives_the_same_run_to_the_last_bit(guided: Run, policy: Path, tmp_path: Path) -> None:
    assert apart(guided, guided_run(policy, tmp_path)) == []


def test_a_guide_that_is_the_policy_has_its_log_probabilities(guided: Run) -> None:
    first, last = guided.metrics[0], guided.metrics[-1]
    # vLLM and DeepSpeed compute in different orders: what is left is the mismatch of the policy's own.
    assert first["guide/kl"] == pytest.approx(0, abs=guided.gap)
    assert first["guide/ratio_mean"] == pytest.approx(1, abs=guided.gap)
    assert first["guide/clip_share"] <= 0.002
    assert first["mismatch/logprob_gap"] <= guided.gap
    assert last["guide/kl"] > 3 * first["guide/kl"], "the policy moves, the guide does not"


def test_every_group_that_is_trained_on_and_every_zero_reward_group_asks_the_guide(guided: Run) -> None:
    for line in guided.metrics:
        assert line["rollout/num_samples"] == PROMPTS * SAMPLES, "the policy's own, of the first batch"
        assert line["guide/asked_groups"] == PROMPTS + line["guide/zero_reward_groups"]
        assert line["guide/responses"] == 2 * line["guide/asked_groups"]
        assert line["guide/zero_reward_groups"] == line["guide/rescued_groups"] + line["guide/unsolved_groups"]
        assert line["guide/failed_groups"] == 0
        trained = (PROMPTS + line["guide/rescued_groups"]) * (SAMPLES + 2) + line["guide/fillers"]
        assert trained % 64 == 0
        share = 2 * (PROMPTS + line["guide/rescued_groups"]) / trained
        assert line["guide/share"] == pytest.approx(share, abs=1e-6)
        assert line["shaped_reward/wrong_mean"] < 0 < line["shaped_reward/correct_mean"]
    assert sum(line["guide/zero_reward_groups"] for line in guided.metrics) > 0
    consumed = [line["rollout/prompts_consumed"] for line in guided.metrics]
    assert consumed == sorted(consumed)
    assert consumed[-1] > STEPS * PROMPTS, "dynamic filtering takes more prompts than it keeps"


def test_saved_groups_tell_whose_a_response_is(guided: Run) -> None:
    lines = [json.loads(line) for line in (guided.folder / "rollouts.jsonl").read_text().splitlines()]
    groups: dict[tuple[int, int], list[bool]] = {}
    for line in lines:
        groups.setdefault((line["step"], line["group"]), []).append(line["guide"])
    assert groups
    assert all(sorted(whose) == SAMPLES * [False] + 2 * [True] for whose in groups.values())


@contextlib.contextmanager
def another_ray_cluster() -> Iterator[None]:
    """A Ray cluster of somebody else on this machine, which no run may join or stop."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ray = str(Path(sys.executable).with_name("ray"))
    environment = {**os.environ, "RAY_prestart_worker_first_driver": "0"}
    flags = ["--head", f"--port={port}", "--num-cpus=1", "--num-gpus=0", "--include-dashboard=false", "--block"]
    cluster = subprocess.Popen(
        [ray, "start", *flags, "--node-ip-address=127.0.0.1"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
        assert cluster.poll() is None, "the other cluster was stopped"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(cluster.pid, signal.SIGTERM)
        cluster.wait(30)


PLANNED = (5, 1)
"""Optimiser updates of the two steps of `solved`, whose passes have two or three."""


@pytest.fixture(scope="module")
def solved(policy: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """GRPO-S in float32, whatever the CPU has, with a worked solution to every second prompt and another run's numbers
    of updates, while a Ray cluster of somebody else is on the machine."""
    folder = tmp_path_factory.mktemp("solved")
    rows = [json.loads(line) for line in (policy / "train.jsonl").read_text().splitlines()][: 2 * PROMPTS]
    expressions = {task.question(expression): expression for expression in task.expressions(960, 1, held_out=False)}
    solutions = [
        {"input": row["input"], "solution": task.worked(expressions[row["input"]], 0.0, random.Random(0))}
        for row in rows[::2]
    ]
    file = folder / "solutions.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in solutions))
    flags = [f"--guide.solutions={file}", "--guide.ratio_shaping=0.1", "--shaping.save_rollouts=4", OTHER_PRECISION]
    other = folder / "metrics.jsonl"
    made = enumerate(PLANNED, 1)
    other.write_text("".join(json.dumps({"step": step, "policy/updates": number}) + "\n" for step, number in made))
    flags += [f"--train.updates_from={other}", "--train.max_steps=2", "--actor.min_lr_ratio=1"]
    with another_ray_cluster():
        return train(policy, folder / "run", "grpo_s", 2, *flags, own_cluster=True).check()


def test_worked_solutions_guide_with_the_policys_own_probability_as_ratio(solved: Run) -> None:
    assert sum(line["guide/asked_groups"] for line in solved.metrics) == PROMPTS, "every second prompt has a solution"
    for line in solved.metrics:
        assert line["guide/pass_rate"] == 1
        assert line["guide/logprob_mean"] == 0
        assert 0 < line["guide/ratio_mean"] < 1, "the ratio is the policy's probability"
        assert line["rollout/num_samples"] == PROMPTS * SAMPLES


def test_another_runs_numbers_of_updates_are_made_and_a_guides_batch_makes_as_many_as_it_fills(
    guided: Run, solved: Run
) -> None:
    assert [line["policy/updates"] for line in solved.metrics] == list(PLANNED)
    for line in guided.metrics:
        trained = (PROMPTS + line["guide/rescued_groups"]) * (SAMPLES + 2) + line["guide/fillers"]
        assert line["policy/updates"] == trained / 64


def test_grpo_s_trains_while_another_ray_cluster_is_on_the_machine(solved: Run) -> None:
    assert len(solved.metrics) == 2
    assert all(line["actor_grad_norm"] > 0 for line in solved.metrics)
    lines = [json.loads(line) for line in (solved.folder / "rollouts.jsonl").read_text().splitlines()]
    for line in lines:
        assert max(line["advantage"]) == min(line["advantage"]), "one advantage for a whole response"
    assert any(line["advantage"][0] != 0 for line in lines)


def test_in_float32_rollout_and_policy_agree_to_a_few_millionths(solved: Run) -> None:
    assert solved.settings["ds.param_dtype"] == "fp32"
    assert max(line["mismatch/logprob_gap"] for line in solved.metrics) <= 5e-6


def test_a_guide_of_another_vocabulary_is_refused_at_start(policy: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for file in (policy / "model").iterdir():
        (other / file.name).write_bytes(file.read_bytes())
    tokenizer = json.loads((other / "tokenizer.json").read_text())
    words = tokenizer["model"]["vocab"]
    first, second = sorted(words)[:2]
    words[first], words[second] = words[second], words[first]
    (other / "tokenizer.json").write_text(json.dumps(tokenizer))
    run = train(policy, tmp_path / "run", "gtpo", 1, f"--guide.model={other}")
    assert run.status == 2
    assert "--guide.model" in run.log
    assert "Traceback" not in run.log
