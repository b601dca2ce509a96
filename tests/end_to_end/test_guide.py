"""A guide beside the policy, in the real loop: a model on an engine of its own."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .loop import OTHER_PRECISION, PROMPTS, SAMPLES, Run, train

STEPS = 3
pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def guided(policy: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """GTPO over two ranks with M1 and M2, guided by the very policy that training begins with."""
    flags = [f"--guide.model={policy / 'model'}", "--guide.samples=2", "--guide.when", "all", "zero_reward"]
    flags += ["--algo.dynamic_filtering_enable", f"--train.max_steps={STEPS}", f"--data.max_samples={8 * PROMPTS}"]
    flags += ["--algo.dynamic_filtering_range", "0", "1", "--algo.advantage.is_correction_level=token"]
    flags += ["--actor.num_gpus_per_node=2", "--rollout.micro_batch_size=8", "--actor.min_lr_ratio=1"]
    flags += ["--shaping.save_rollouts=20"]
    return train(policy, tmp_path_factory.mktemp("guided"), "gtpo", STEPS, *flags).check()


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


@pytest.fixture(scope="module")
def beside_another_cluster(policy: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """GRPO-S in float32, whatever the CPU has, with a guide for every group, while a Ray cluster of somebody else is
    on the machine."""
    flags = [f"--guide.model={policy / 'model'}", "--shaping.save_rollouts=4", OTHER_PRECISION, "--train.max_steps=2"]
    with another_ray_cluster():
        return train(policy, tmp_path_factory.mktemp("other"), "grpo_s", 2, *flags, own_cluster=True).check()


def test_a_guide_goes_with_one_ratio_for_a_whole_response(beside_another_cluster: Run) -> None:
    first, last = beside_another_cluster.metrics
    assert first["guide/kl"] == pytest.approx(0, abs=beside_another_cluster.gap)
    assert last["guide/kl"] > first["guide/kl"]
    for line in beside_another_cluster.metrics:
        assert (line["guide/asked_groups"], line["guide/responses"]) == (PROMPTS, PROMPTS)
        assert line["guide/zero_reward_groups"] == 0, "these groups are not taken out of the batch"
        assert line["rollout/num_samples"] == PROMPTS * SAMPLES


def test_grpo_s_trains_while_another_ray_cluster_is_on_the_machine(beside_another_cluster: Run) -> None:
    assert len(beside_another_cluster.metrics) == 2
    assert all(line["actor_grad_norm"] > 0 for line in beside_another_cluster.metrics)
    lines = [json.loads(line) for line in (beside_another_cluster.folder / "rollouts.jsonl").read_text().splitlines()]
    for line in lines:
        assert max(line["advantage"]) == min(line["advantage"]), "one advantage for a whole response"
    assert any(line["advantage"][0] != 0 for line in lines)


def test_in_float32_rollout_and_policy_agree_to_a_few_millionths(beside_another_cluster: Run) -> None:
    assert beside_another_cluster.settings["ds.param_dtype"] == "fp32"
    assert max(line["mismatch/logprob_gap"] for line in beside_another_cluster.metrics) <= 5e-6
