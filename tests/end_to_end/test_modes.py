"""Modes of OpenRLHF that users combine with the plugin, two steps each, in the real loop."""

import json
from pathlib import Path

import pytest
import torch
from torchdata.stateful_dataloader import StatefulDataLoader
from transformers import AutoTokenizer

from openrlhf_gtpo.seeds import derived

from .loop import OTHER_PRECISION, PROMPTS, SAMPLES, Run, apart, train

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
pytestmark = pytest.mark.engine


def check_steps(run: Run, steps: int) -> None:
    """Every step shaped, learned, and handed its weights on."""
    assert [line["step"] for line in run.metrics] == list(range(1, steps + 1))
    for line in run.metrics:
        assert line["rollout/num_samples"] == PROMPTS * SAMPLES
        assert line["entropy/token_mean"] > 0
        assert line["shaped_reward/wrong_mean"] < 0
        assert line["actor_grad_norm"] > 0


COMBINED = [
    "--ds.packing_samples",
    "--train.dynamic_batch_enable",
    "--train.max_tokens_per_gpu=700",
    "--ds.zero_stage=3",
    "--actor.num_gpus_per_node=2",
    "--ref.num_gpus_per_node=2",
    "--rollout.micro_batch_size=8",
    "--algo.kl.use_loss",
    "--algo.kl.init_coef=0.001",
    "--algo.kl.estimator=k3",
    "--algo.advantage.is_correction_level=token",
    "--algo.dynamic_filtering_enable",
    "--reward.overlong_buffer_len=10",
    "--train.max_steps=3",
    f"--shaping.save_rollouts={PROMPTS}",
]
"""What users combine, over two ranks: ZeRO-3, DAPO's dynamic filtering and overlong penalty, KL as a loss, importance
correction, and packed samples in batches of as many as have a number of tokens."""


@pytest.fixture(scope="module")
def combined(policy: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """All of it with two engines."""
    folder = tmp_path_factory.mktemp("combined")
    return train(policy, folder, "gtpo", 9, *COMBINED, "--vllm.num_engines=2").check()


def test_the_run_is_the_same_to_the_last_bit_with_another_number_of_engines(
    combined: Run, policy: Path, tmp_path: Path
) -> None:
    assert apart(combined, train(policy, tmp_path, "gtpo", 9, *COMBINED).check()) == []


def test_zero_3_over_two_ranks_hands_gathered_weights_to_both_engines(combined: Run) -> None:
    check_steps(combined, 3)
    assert max(line["mismatch/logprob_gap"] for line in combined.metrics) <= combined.gap


def test_dynamic_filtering_leaves_informative_groups_alone_beside_all_else(combined: Run) -> None:
    for line in combined.metrics:
        assert line["groups/uninformative_share"] == 0, "dynamic filtering replaced them"
        assert line["kl"] >= 0, "the reference model answered, about the same tokens"
    assert (combined.folder / "model" / "config.json").exists()


def test_asynchronous_training_with_partial_rollouts_and_a_reward_function_of_ones_own(
    policy: Path, tmp_path: Path
) -> None:
    flags = ["--train.async_enable", "--train.partial_rollout_enable", "--train.async_queue_size=2"]
    flags += ["--algo.advantage.is_correction_level=token", "--train.max_steps=3"]
    flags += [f"--reward.remote_url={EXAMPLES / 'reward_function.py'}", f"--shaping.save_rollouts={PROMPTS}"]
    run = train(policy, tmp_path, "gtpo", 6, *flags).check()
    check_steps(run, 3)
    assert prompts_by_step(run) == prompts_in_order(policy, 6)[:3], "the seed decides the order here too"
    assert all(0 <= line["brevity"] <= 0.11 for line in run.metrics), "the documented reward function gave the rewards"


def prompts_by_step(run: Run) -> list[list[str]]:
    """Those of each step, in the order of their groups."""
    found: dict[tuple[int, int], str] = {}
    for line in map(json.loads, (run.folder / "rollouts.jsonl").read_text().splitlines()):
        found[line["step"], line["group"]] = line["prompt"]
    return [[prompt for (at, _), prompt in sorted(found.items()) if at == step] for step in (1, 2, 3)]


def prompts_in_order(policy: Path, steps: int) -> list[list[str]]:
    """Those of each step as torchdata's loader with OpenRLHF's default seed has them, made here."""
    rows = [json.loads(line)["input"] for line in (policy / "train.jsonl").read_text().splitlines()]
    tokenizer = AutoTokenizer.from_pretrained(policy / "model")
    chats = ([{"role": "user", "content": row}] for row in rows[: steps * PROMPTS])
    prompts = [tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True) for chat in chats]
    torch.manual_seed(derived(42, "prompts"))
    order = list(StatefulDataLoader(prompts, shuffle=True, collate_fn=lambda one: one[0]))
    return [order[step * PROMPTS : (step + 1) * PROMPTS] for step in range(steps)]


@pytest.fixture(scope="module")
def adapted(policy: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """LoRA in float32, whatever the CPU has, with an agent of two turns and an engine of two workers, under importance
    correction."""
    flags = ["--vllm.tensor_parallel_size=2"]
    flags += ["--ds.lora.rank=8", "--ds.lora.alpha=16", "--actor.adam.lr=1e-2", OTHER_PRECISION]
    flags += [f"--train.agent_func_path={EXAMPLES / 'second_chance_agent.py'}", "--shaping.save_rollouts=4"]
    flags += ["--algo.advantage.is_correction_level=token"]
    return train(policy, tmp_path_factory.mktemp("adapted"), "gtpo", 4, *flags).check()


def test_lora_adapters_reach_vllm_merged(adapted: Run) -> None:
    check_steps(adapted, 4)
    assert max(line["mismatch/logprob_gap"] for line in adapted.metrics) <= 2 * adapted.gap
    assert (adapted.folder / "model" / "adapter_config.json").exists()


def test_an_engine_of_two_workers_agrees_with_the_policy_on_every_token(adapted: Run) -> None:
    assert adapted.settings["vllm.tensor_parallel_size"] == 2
    assert adapted.metrics[0]["mismatch/logprob_gap"] <= adapted.gap, "before the first update nothing differs"
    assert all(line["entropy/token_mean"] > 0 for line in adapted.metrics)


def test_importance_ratios_are_of_the_weights_that_sampled(adapted: Run) -> None:
    for line in adapted.metrics:
        assert abs(line["vllm_kl"]) <= 2 * adapted.gap
        assert line["is_filter_ratio"] == 0


def test_an_agent_of_two_turns(adapted: Run) -> None:
    check_steps(adapted, 4)
    assert all(1 < line["turns"] <= 2 for line in adapted.metrics), "some answers were wrong at first"
    lines = [json.loads(line) for line in (adapted.folder / "rollouts.jsonl").read_text().splitlines()]
    assert not any("user" in line["tokens"] for line in lines), "what the environment said is no token of the policy"
