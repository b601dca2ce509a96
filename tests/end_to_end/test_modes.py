"""Modes of OpenRLHF and of the plugin that users combine, a few steps each, in the real loop."""

import json
from pathlib import Path

import pytest
import torch
from torchdata.stateful_dataloader import StatefulDataLoader
from transformers import AutoTokenizer

from openrlhf_gtpo.resume import FILE
from openrlhf_gtpo.seeds import derived

from .loop import OTHER_PRECISION, PROMPTS, SAMPLES, Run, apart, train
from .ray_cluster import RayCluster

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
STEPS = 3
pytestmark = pytest.mark.engine


def check_steps(run: Run) -> None:
    """Every step shaped, learned, and handed its weights on."""
    assert [line["step"] for line in run.metrics] == list(range(1, STEPS + 1))
    for line in run.metrics:
        assert line["rollout/num_samples"] == PROMPTS * SAMPLES, "the policy's own"
        assert line["entropy/token_mean"] > 0
        assert line["shaped_reward/wrong_mean"] < 0 < line["shaped_reward/correct_mean"]
        assert line["actor_grad_norm"] > 0


COMBINED = [
    "--ds.packing_samples",
    "--ds.zero_stage=3",
    "--actor.num_gpus_per_node=2",
    "--actor.min_lr_ratio=1",
    "--ref.num_gpus_per_node=2",
    "--rollout.micro_batch_size=8",
    "--algo.kl.use_loss",
    "--algo.kl.init_coef=0.001",
    "--algo.kl.estimator=k3",
    "--algo.advantage.is_correction_level=token",
    "--algo.dynamic_filtering_enable",
    "--algo.dynamic_filtering_range",
    "0",
    "1",
    "--reward.overlong_buffer_len=10",
    f"--train.max_steps={STEPS}",
    f"--shaping.save_rollouts={PROMPTS}",
]
"""What users combine, over two ranks: packed samples, ZeRO-3, DAPO's dynamic filtering and overlong penalty, KL as a
loss, and importance correction."""


@pytest.fixture(scope="module")
def combined(policy: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """All of it with two engines, and M1 and M2, guided by the very policy that training begins with."""
    flags = [*COMBINED, "--vllm.num_engines=2", f"--guide.model={policy / 'model'}", "--guide.samples=2"]
    flags += ["--guide.when", "all", "zero_reward"]
    return train(policy, tmp_path_factory.mktemp("combined"), "gtpo", 9, *flags).check()


def test_zero_3_over_two_ranks_hands_gathered_weights_to_both_engines(combined: Run) -> None:
    check_steps(combined)
    assert max(line["mismatch/logprob_gap"] for line in combined.metrics) <= combined.gap


def test_importance_ratios_are_of_the_weights_that_sampled(combined: Run) -> None:
    for line in combined.metrics:
        assert abs(line["vllm_kl"]) <= 2 * combined.gap
        assert line["is_filter_ratio"] == 0


def test_dynamic_filtering_leaves_informative_groups_alone_beside_all_else(combined: Run) -> None:
    for line in combined.metrics:
        assert line["groups/uninformative_share"] == 0, "dynamic filtering replaced them"
        assert line["kl"] >= 0, "the reference model answered, about the same tokens"
    consumed = [line["rollout/prompts_consumed"] for line in combined.metrics]
    assert consumed == sorted(consumed)
    assert consumed[-1] > STEPS * PROMPTS, "it takes more prompts than it keeps"
    assert (combined.folder / "model" / "config.json").exists()


def test_a_guide_that_is_the_policy_has_its_log_probabilities(combined: Run) -> None:
    first, last = combined.metrics[0], combined.metrics[-1]
    # vLLM and DeepSpeed compute in different orders: what is left is the mismatch of the policy's own.
    assert first["guide/kl"] == pytest.approx(0, abs=combined.gap)
    assert first["guide/ratio_mean"] == pytest.approx(1, abs=combined.gap)
    assert first["guide/clip_share"] <= 0.002
    assert last["guide/kl"] > 3 * first["guide/kl"], "the policy moves, the guide does not"


def test_every_group_that_is_trained_on_and_every_zero_reward_group_asks_the_guide(combined: Run) -> None:
    for line in combined.metrics:
        assert line["guide/asked_groups"] == PROMPTS + line["guide/zero_reward_groups"]
        assert line["guide/responses"] == 2 * line["guide/asked_groups"]
        assert line["guide/zero_reward_groups"] == line["guide/rescued_groups"] + line["guide/unsolved_groups"]
        assert line["guide/failed_groups"] == 0
        trained = (PROMPTS + line["guide/rescued_groups"]) * (SAMPLES + 2) + line["guide/fillers"]
        assert trained % 64 == 0
        share = 2 * (PROMPTS + line["guide/rescued_groups"]) / trained
        assert line["guide/share"] == pytest.approx(share, abs=1e-6)
    assert sum(line["guide/zero_reward_groups"] for line in combined.metrics) > 0


def test_saved_groups_tell_whose_a_response_is(combined: Run) -> None:
    groups: dict[tuple[int, int], list[bool]] = {}
    for line in combined.rollouts():
        groups.setdefault((line["step"], line["group"]), []).append(line["guide"])
    assert groups
    assert all(sorted(whose) == SAMPLES * [False] + 2 * [True] for whose in groups.values())


@pytest.mark.nightly
def test_which_engine_answers_first_decides_nothing(policy: Path, tmp_path: Path) -> None:
    one, two = (train(policy, tmp_path / str(n), "gtpo", 9, *COMBINED, f"--vllm.num_engines={n}") for n in (1, 2))
    assert apart(one.check(), two.check()) == []


def prompts_by_step(run: Run) -> list[list[str]]:
    """Those of each step, in the order of their groups."""
    found = {(line["step"], line["group"]): line["prompt"] for line in run.rollouts()}
    return [[prompt for (at, _), prompt in sorted(found.items()) if at == step] for step in range(1, STEPS + 1)]


def prompts_in_order(policy: Path, steps: int) -> list[list[str]]:
    """Those of each step as torchdata's loader with OpenRLHF's default seed has them, made here."""
    rows = [json.loads(line)["input"] for line in (policy / "train.jsonl").read_text().splitlines()]
    tokenizer = AutoTokenizer.from_pretrained(policy / "model")
    chats = ([{"role": "user", "content": row}] for row in rows[: steps * PROMPTS])
    prompts = [tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True) for chat in chats]
    torch.manual_seed(derived(42, "prompts"))
    order = list(StatefulDataLoader(prompts, shuffle=True, collate_fn=lambda one: one[0]))
    return [order[step * PROMPTS : (step + 1) * PROMPTS] for step in range(steps)]


def test_asynchronous_training_with_partial_rollouts_and_an_agent_of_two_turns(policy: Path, tmp_path: Path) -> None:
    flags = ["--train.async_enable", "--train.partial_rollout_enable", "--train.async_queue_size=2"]
    flags += ["--algo.advantage.is_correction_level=token", f"--train.max_steps={STEPS}"]
    flags += [f"--train.agent_func_path={EXAMPLES / 'second_chance_agent.py'}", f"--shaping.save_rollouts={PROMPTS}"]
    run = train(policy, tmp_path, "gtpo", 6, *flags).check()
    check_steps(run)
    assert prompts_by_step(run) == prompts_in_order(policy, 6)[:STEPS], "the seed decides the order here too"
    assert all(1 < line["turns"] <= 2 for line in run.metrics), "some answers were wrong at first"
    said = [token for line in run.rollouts() for token in line["tokens"]]
    assert "user" not in said, "what the environment said is no token of the policy"


def test_an_asynchronous_run_that_resumes_goes_on_with_its_prompts_steps_and_counts(
    policy: Path, tmp_path: Path
) -> None:
    flags = ["--train.async_enable", f"--shaping.save_rollouts={PROMPTS}", "--ckpt.save_steps=1"]
    flags += [f"--ckpt.path={tmp_path / 'state'}"]
    first = train(policy, tmp_path, "gtpo", 6, *flags, f"--train.max_steps={STEPS - 1}").check()
    assert len(first.metrics) == STEPS - 1
    run = train(policy, tmp_path, "gtpo", 6, *flags, f"--train.max_steps={STEPS}", "--ckpt.load_enable").check()
    check_steps(run)
    assert prompts_by_step(run) == prompts_in_order(policy, 6)[:STEPS]
    consumed = [line["rollout/prompts_consumed"] for line in run.metrics]
    assert consumed == [PROMPTS * step for step in range(1, STEPS + 1)]
    assert all(line["reward/dropped_groups"] == 0 for line in run.metrics), "it is logged here too"
    assert "step 1 " in (run.folder / "train.log").read_text(), "the log of the first part is still there"
    assert f"--train.max_steps {STEPS}, before {STEPS - 1}" in (run.folder / "log").read_text()
    of = json.loads((tmp_path / "state" / "_actor" / f"global_step{STEPS}" / FILE).read_text())
    assert (of["data"]["rows"], of["ranks"], of["settings"]["train.max_steps"]) == (6 * PROMPTS, 1, STEPS)


@pytest.fixture(scope="module")
def adapted(policy: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """GRPO-S with LoRA in float32, whatever the CPU has, an engine of two workers, a guide for every group and a
    reward function of one's own, while a Ray cluster of somebody else is on the machine."""
    flags = ["--ds.lora.rank=8", "--ds.lora.alpha=16", "--actor.adam.lr=1e-2", OTHER_PRECISION]
    flags += ["--vllm.tensor_parallel_size=2", "--guide.tensor_parallel_size=1", f"--guide.model={policy / 'model'}"]
    flags += [f"--reward.remote_url={EXAMPLES / 'reward_function.py'}", "--shaping.save_rollouts=4"]
    with RayCluster(["--num-cpus=1", "--num-gpus=0"]) as others:
        run = train(policy, tmp_path_factory.mktemp("adapted"), "grpo_s", STEPS, *flags, own_cluster=True).check()
        assert others.is_running(), "no run may join or stop it"
    return run


def test_lora_adapters_reach_vllm_merged(adapted: Run) -> None:
    check_steps(adapted)
    assert max(line["mismatch/logprob_gap"] for line in adapted.metrics) <= 2 * adapted.gap
    assert (adapted.folder / "model" / "adapter_config.json").exists()


def test_an_engine_of_two_workers_agrees_with_the_policy_to_a_few_millionths_in_float32(adapted: Run) -> None:
    assert adapted.settings["vllm.tensor_parallel_size"] == 2
    assert adapted.settings["ds.param_dtype"] == "fp32"
    assert adapted.metrics[0]["mismatch/logprob_gap"] <= 5e-6, "before the first update nothing differs"


def test_a_guide_goes_with_one_ratio_and_one_advantage_for_a_whole_response(adapted: Run) -> None:
    assert adapted.metrics[0]["guide/kl"] == pytest.approx(0, abs=adapted.gap)
    assert adapted.metrics[-1]["guide/kl"] > adapted.metrics[0]["guide/kl"]
    for line in adapted.metrics:
        assert (line["guide/asked_groups"], line["guide/responses"]) == (PROMPTS, PROMPTS)
        assert line["guide/zero_reward_groups"] == 0, "these groups are not taken out of the batch"
    lines = adapted.rollouts()
    assert all(max(line["advantage"]) == min(line["advantage"]) for line in lines)
    assert any(line["advantage"][0] != 0 for line in lines)


def test_a_reward_function_of_ones_own_gives_the_rewards_and_a_metric(adapted: Run) -> None:
    assert all(0 <= line["brevity"] <= 0.11 for line in adapted.metrics)
