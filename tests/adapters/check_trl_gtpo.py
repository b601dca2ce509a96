"""GTPO and GRPO-S in real runs of TRL: advantages are those of a calculation that knows nothing of TRL.

The gradients are compared in `check_trl_same_rollouts.py`.
"""

import re
import subprocess
import sys
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig
from tiny_policy import QUESTIONS, on_a_cpu, tiny_policy
from transformers import PrinterCallback
from trl import GRPOTrainer

from math_reward.adapters.trl import MathReward
from openrlhf_gtpo.errors import SettingsError
from openrlhf_gtpo.shaping import grpo_s, gtpo
from openrlhf_gtpo.trainers.trl import GTPOTrainer

sys.path.append(str(Path(__file__).parents[1] / "plugin"))
from naive_shaping import naive_grpo_s, naive_gtpo

SEVEN = 7
DEFAULTS = {"alpha1": 1.0, "alpha2": 0.1, "over": "group", "scope": "group", "entropy_clip": None, "eps": 1e-8}


def says_seven(completion_ids: list[list[int]], **_: Any) -> list[float]:
    return [float(SEVEN in ids) for ids in completion_ids]


class Watched(GTPOTrainer):
    """Keeps what each rollout gave, with entropies from the whole logits, without TRL's fused head."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.rollouts: list[dict[str, Any]] = []
        super().__init__(*args, **kwargs)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        batch = super()._generate_and_score_completions(inputs)
        ids, on = (torch.cat([batch[f"prompt_{of}"], batch[f"completion_{of}"]], 1) for of in ("ids", "mask"))
        columns = batch["completion_ids"].size(1)
        with torch.no_grad():
            kept = self.model(input_ids=ids, attention_mask=on, logits_to_keep=columns + 1).logits[:, :-1]
        logits = (row / self.temperature for row in kept.double())
        entropy = torch.stack([torch.distributions.Categorical(logits=row).entropy() for row in logits])
        mask = batch["completion_mask"] * batch.get("tool_mask", 1)
        rollout = {"entropy": entropy, "mask": mask, "advantages": batch["advantages"]}
        self.rollouts.append({name: tensor.tolist() for name, tensor in rollout.items()} | {"correct": self.correct})
        return batch

    def _calculate_rewards(self, *given: Any) -> torch.Tensor:
        self.correct = [SEVEN in ids for ids in given[-1]]
        return super()._calculate_rewards(*given)


def trainer(folder: Path, config: dict[str, Any] | None = None, saved: bool = False, **given: Any) -> Watched:
    """A trainer of a random policy.

    Args:
        folder: to write to.
        config: fields of GRPOConfig.
        saved: whether the policy is loaded from a folder, as its reference has to be.
        given: arguments of the trainer.
    """
    policy, tokenizer = tiny_policy()
    torch.nn.init.normal_(policy.lm_head.weight, std=0.4)  # so that entropies differ
    if saved:
        policy.save_pretrained(folder / "policy")
    settings = {
        "max_steps": 2,
        "per_device_train_batch_size": 16,
        "num_generations": 4,
        "max_completion_length": 6,
        "learning_rate": 0.005,
        "loss_type": "grpo" if getattr(given.get("shape"), "func", given.get("shape")) is grpo_s else "dapo",
        **(config or {}),
    }
    made = Watched(
        str(folder / "policy") if saved else policy,
        **{"reward_funcs": says_seven, **given},
        args=on_a_cpu(folder, **settings),
        train_dataset=Dataset.from_dict({"prompt": QUESTIONS * 4}),
        processing_class=tokenizer,
    )
    made.remove_callback(PrinterCallback)
    return made


def compared(rollouts: list[dict[str, Any]], shape: Any, size: int = 4, atol: float = 1e-6) -> int:
    """Compares the advantages of rollouts with naive_shaping's; gives the number of groups with both verdicts."""
    naive = naive_grpo_s if shape.func is grpo_s else naive_gtpo
    informative = 0
    for rollout in rollouts:
        group = [place // size for place in range(len(rollout["mask"]))]
        options = {**DEFAULTS, "penalty": [0.0] * len(group), **shape.keywords}
        _, expected, informs = naive(rollout["entropy"], rollout["mask"], rollout["correct"], group, **options)
        ours, theirs = (torch.tensor([*chain(*rows)]) for rows in (rollout["advantages"], expected))
        print("largest difference:", (ours - theirs).abs().max().item(), "largest advantage:", ours.abs().max().item())
        torch.testing.assert_close(ours, theirs, rtol=0, atol=atol)
        informative += sum(informs)
    assert informative > 0
    return informative


def environment_says_a_word(prompts: list[str], trainer: GRPOTrainer) -> dict[str, Any]:
    """A rollout function: four words, of which an environment said the second."""
    ids = [trainer.processing_class(prompt).input_ids for prompt in prompts]
    said = torch.randint(2, 11, (len(prompts), 4)).tolist()
    return {"prompt_ids": ids, "completion_ids": said, "logprobs": None, "env_mask": [[1, 0, 1, 1]] * len(said)}


LORA = LoraConfig(target_modules=["q_proj", "v_proj"])
REFERENCE = {"beta": 0.1, "num_iterations": 2, "max_steps": 6, "learning_rate": 0.05}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "as it comes": ({}, {}),
    "accumulated gradients": ({"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2}, {}),
    "a rollout for four steps": ({"per_device_train_batch_size": 4, "steps_per_generation": 4, "max_steps": 5}, {}),
    "a temperature": ({"temperature": 0.7}, {}),
    "truncated responses masked": ({"mask_truncated_completions": True, "max_completion_length": 16}, {}),
    "LoRA": ({}, {"peft_config": LORA}),
    "an environment's tokens": ({}, {"rollout_func": environment_says_a_word}),
}


@pytest.mark.parametrize("shape", [partial(gtpo, alpha2=1.0), partial(grpo_s, alpha2=1.0)], ids=["gtpo", "grpo_s"])
@pytest.mark.parametrize("case", CASES)
def test_the_advantages_are_those_of_the_paper(case: str, shape: Any, tmp_path: Path) -> None:
    config, given = CASES[case]
    run = trainer(tmp_path, config, shape=shape, **given)
    run.train()
    compared(run.rollouts, shape)


@pytest.mark.parametrize("peft_config", [None, LORA], ids=["all weights", "LoRA"])
def test_the_entropies_are_the_policys_and_not_its_references(peft_config: LoraConfig | None, tmp_path: Path) -> None:
    run = trainer(tmp_path, REFERENCE, saved=peft_config is None, peft_config=peft_config, shape=partial(gtpo))
    run.train()
    compared(run.rollouts, partial(gtpo))


REFUSED: list[tuple[Any, dict[str, Any]]] = [
    (gtpo, {"scale_rewards": "batch"}),
    (grpo_s, {"multi_objective_aggregation": "normalize_then_sum"}),
    (gtpo, {"off_policy_mask_threshold": 0.5}),
    (gtpo, {"importance_sampling_level": "sequence"}),
    (gtpo, {"loss_type": "luspo"}),
    (gtpo, {"loss_type": "vespo"}),
    (grpo_s, {"loss_type": "dapo"}),
    (grpo_s, {"beta": 0.1}),
    (grpo_s, {"top_entropy_quantile": 0.2}),
    (grpo_s, {"vllm_importance_sampling_mode": "token_mask"}),
    (gtpo, {"top_p": 0.9}),
    (gtpo, {"top_k": 20}),
    (gtpo, {"min_p": 0.1}),
    (gtpo, {"repetition_penalty": 1.1}),
    (gtpo, {"generation_kwargs": {"typical_p": 0.9}}),
]


@pytest.mark.parametrize(("shape", "config"), REFUSED)
def test_a_setting_that_would_have_no_effect_or_be_wrong_is_refused_and_named(
    shape: Any, config: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(SettingsError) as refused:
        trainer(tmp_path, config, shape=shape)
    (said,) = str(refused.value).splitlines()
    assert said.startswith(f"{next(iter(config))}=")
    assert "set it to" in said
    assert said.endswith(".")


ROOT = Path(__file__).parents[2]
BLOCKS = [
    pytest.param(block, id=f"{page}-{number}")
    for page in ("README.md", "docs/adapters.md")
    for number, block in enumerate(
        re.findall(r"```python\n(from openrlhf_gtpo\..*?)```", (ROOT / page).read_text(), re.S)
    )
]


@pytest.mark.parametrize("block", BLOCKS)
def test_the_lines_of_the_documentation_train_with_the_graders_verdicts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: str
) -> None:
    policy, tokenizer = tiny_policy()
    for one in (policy, tokenizer):
        one.save_pretrained(tmp_path / "policy")
    monkeypatch.chdir(tmp_path)
    small = {"max_steps": 1, "max_completion_length": 3, "num_generations": 4, "per_device_train_batch_size": 4}
    settings = partial(on_a_cpu, tmp_path, **small)
    if "args=" not in block:
        block = block.replace("MathReward(), ", "MathReward(), args=GRPOConfig(), ")
    rows = Dataset.from_dict({"prompt": QUESTIONS, "answer": ["7", "8"]})
    names: dict[str, Any] = {
        "rows": rows,
        "MathReward": MathReward,
        "GRPOConfig": settings,
        "GTPOTrainer": GTPOTrainer,
    }
    exec(block.replace("Qwen/Qwen2.5-0.5B-Instruct", "policy"), names)
    assert names["trainer"].state.global_step == 1


@pytest.mark.parametrize("method", ["gtpo", "grpo_s"])
def test_the_example_learns(method: str, tmp_path: Path) -> None:
    script = Path(__file__).parents[2] / "docs" / "examples" / "gtpo_with_trl.py"
    done = subprocess.run(
        [sys.executable, str(script), method], cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    print(done.stdout)
    assert done.returncode == 0, done.stderr[-3000:]
    before, after = re.findall(r"\d\.\d\d", done.stdout.splitlines()[-1])
    assert float(before) < 0.4
    assert float(after) > 0.7
