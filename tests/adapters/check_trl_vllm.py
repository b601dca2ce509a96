"""Entropies of vLLM's sampler in TRL: a real vLLM in the trainer's process, with top-p, through several updates.

It needs vLLM beside TRL; the other checks of TRL do not.
"""

import logging
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from tiny_policy import QUESTIONS, on_a_cpu, tiny_policy

from openrlhf_gtpo.shaping import gtpo
from openrlhf_gtpo.trainers.trl import GTPOTrainer

vllm = pytest.importorskip("vllm", reason="needs vLLM: bash launch/adapters.sh trl_vllm")
TOP_P, TEMPERATURE = 0.9, 0.8
logging.getLogger("torch.__trace").propagate = False  # thousands of lines that vLLM's compiler asks for


def truncated(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Probabilities (..., V) at the temperature, and those that are left after top-p, by its definition."""
    whole = (logits.double() / TEMPERATURE).softmax(-1)
    sorted_, order = whole.sort(-1, descending=True)
    left = torch.where(sorted_.cumsum(-1) - sorted_ < TOP_P, sorted_, 0.0)
    return whole, torch.zeros_like(whole).scatter(-1, order, left / left.sum(-1, keepdim=True))


def entropy_of(probabilities: torch.Tensor) -> torch.Tensor:
    return -torch.special.xlogy(probabilities, probabilities).sum(-1)


class Watched(GTPOTrainer):
    """Compares what each rollout gave with the whole distributions of the policy."""

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        batch = super()._generate_and_score_completions(inputs)
        with torch.no_grad():
            ids, on = (torch.cat([batch[f"prompt_{of}"], batch[f"completion_{of}"]], 1) for of in ("ids", "mask"))
            columns = batch["completion_ids"].size(1)
            whole, left = truncated(self.model(input_ids=ids, attention_mask=on).logits[:, -columns - 1 : -1])
        mask = batch["completion_mask"].bool()
        chances = left.gather(-1, batch["completion_ids"][..., None]).squeeze(-1)
        correct = self._rewards[:, 0] == 1
        shaped = gtpo(entropy_of(left), mask, correct, torch.arange(len(mask)) // self.num_generations)
        exact, policys = entropy_of(left), entropy_of(whole)
        self.seen.append(
            {
                "tokens": int(mask.sum()),
                "entropy": (self._entropy - exact)[mask].abs().max().item(),
                "policy's entropy": (policys - exact)[mask].abs().mean().item(),
                "log-probability": (batch["sampling_per_token_logps"] - chances.log())[mask].abs().max().item(),
                "advantage": (batch["advantages"] - shaped.advantages)[mask].abs().max().item(),
                "informative": int(shaped.informative.sum()),
            }
        )
        return batch


def says_seven(completion_ids: list[list[int]], **_: Any) -> list[float]:
    return [float(7 in ids) for ids in completion_ids]


def test_entropies_are_exact_after_top_p_and_after_updates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trl.generation import vllm_generation

    policy, tokenizer = tiny_policy(hidden_size=64)
    torch.nn.init.normal_(policy.lm_head.weight, std=0.2)  # so that entropies differ
    for one in (policy, tokenizer):
        one.save_pretrained(tmp_path / "policy")
    engine = partial(vllm.LLM, dtype="float32", enforce_eager=True)  # as precise as the policy
    monkeypatch.setattr(vllm_generation, "LLM", engine)
    trainer = Watched(
        str(tmp_path / "policy"),
        says_seven,
        on_a_cpu(
            tmp_path,
            max_steps=4,
            learning_rate=0.0003,
            per_device_train_batch_size=32,
            num_generations=8,
            max_completion_length=6,
            temperature=TEMPERATURE,
            top_p=TOP_P,
            use_vllm=True,
            vllm_importance_sampling_correction=False,
            vllm_gpu_memory_utilization=0.05,
            vllm_max_model_length=32,
        ),
        train_dataset=Dataset.from_dict({"prompt": QUESTIONS * 8}),
        processing_class=tokenizer,
        sampler_entropies=True,
    )
    trainer.seen = []
    llm = trainer.vllm_generation.llm

    def sync_weights() -> None:  # TRL's own does not work with vLLM's build for a CPU, which packs the weights
        runner = llm.llm_engine.model_executor.driver_worker.model_runner
        runner.reload_weights(weights_iterator=((name, one.data) for name, one in trainer.model.named_parameters()))
        llm.reset_prefix_cache()

    trainer.vllm_generation.sync_weights = sync_weights
    before = trainer.model.lm_head.weight.clone()
    trainer.train()
    assert not torch.equal(trainer.model.lm_head.weight, before)
    assert len(trainer.seen) == 4
    for rollout in trainer.seen:
        print(rollout)
        assert rollout["entropy"] < 1e-5
        assert rollout["log-probability"] < 1e-5
        assert rollout["advantage"] < 1e-4
        assert rollout["policy's entropy"] > 0.1
    assert any(rollout["informative"] for rollout in trainer.seen)
