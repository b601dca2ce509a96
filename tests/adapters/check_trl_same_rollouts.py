"""The rollouts that every trainer's test gets, in TRL: its own step over a policy that is a table.

Run by itself it is one process of a distributed run, which the tests of two processes start.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import same_rollouts
import torch
from datasets import Dataset
from same_rollouts import CLIP, CORRECT, ENTROPY, MASK, NEW, OLD, PENALTY, SIZE
from tiny_policy import on_a_cpu, tiny_policy
from transformers import TrainerCallback

from openrlhf_gtpo.shaping import grpo_s, gtpo
from openrlhf_gtpo.trainers.trl import GTPOTrainer

ROWS = len(MASK)
FIRST = 100
"""The token of response 0. A response repeats its own token, by which the table finds it."""


@dataclass
class Answer:
    """What TRL asks a policy for."""

    log_probs: torch.Tensor  # (B, L)
    entropy: torch.Tensor  # (B, L), nats


def correct(completion_ids: list[list[int]], **_: Any) -> list[float]:
    return [float(CORRECT[ids[0] - FIRST]) for ids in completion_ids]


def overlong(completion_ids: list[list[int]], **_: Any) -> list[float]:
    return [PENALTY[ids[0] - FIRST] for ids in completion_ids]


def saved_responses(prompts: list[str], trainer: GTPOTrainer) -> dict[str, Any]:
    """A rollout function: this process's part of the responses."""
    first = trainer.accelerator.process_index * len(prompts)
    rows = range(first, first + len(prompts))
    ids = [[FIRST + row] * sum(MASK[row]) for row in rows]
    return {"prompt_ids": [[2]] * len(prompts), "completion_ids": ids, "logprobs": None}


class Watched(GTPOTrainer):
    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        batch = super()._generate_and_score_completions(inputs)
        self.advantages = batch["advantages"].tolist()
        return batch


class Gradient(TrainerCallback):
    """Keeps the gradient that the optimizer gets."""

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any, **_: Any) -> None:
        self.found = model.table.grad.tolist()


def one_step(folder: Path, estimator: str, batch: int, steps: int) -> tuple[list[list[float]], list[list[float]]]:
    """This process's advantages, (its rows, T), and the gradient of all, (ROWS, T), of a first step.

    Args:
        folder: to write to.
        estimator: "gtpo" or "grpo_s".
        batch: responses of a process in a micro-batch.
        steps: micro-batches.
    """
    policy, tokenizer = tiny_policy()
    policy.requires_grad_(False)
    policy.table = torch.nn.Parameter(torch.tensor(NEW))
    gradient = Gradient()
    trainer = Watched(
        policy,
        [correct, overlong],
        on_a_cpu(
            folder,
            max_steps=1,
            num_iterations=2,
            per_device_train_batch_size=batch,
            gradient_accumulation_steps=steps,
            num_generations=SIZE,
            max_completion_length=len(MASK[0]),
            epsilon=CLIP[0],
            epsilon_high=CLIP[1],
            max_grad_norm=0.0,
            loss_type="grpo" if estimator == "grpo_s" else "dapo",
        ),
        train_dataset=Dataset.from_dict({"prompt": ["What"] * ROWS}),
        processing_class=tokenizer,
        callbacks=[gradient],
        rollout_func=saved_responses,
        shape={"gtpo": gtpo, "grpo_s": grpo_s}[estimator],
    )

    def forward(input_ids: torch.Tensor, **_: Any) -> Answer:
        rows, columns = input_ids[:, 1] - FIRST, input_ids.size(1) - 1
        new = policy.table if torch.is_grad_enabled() else torch.tensor(OLD)  # the pass over a rollout has none
        return Answer(new[rows, :columns], torch.tensor(ENTROPY)[rows, :columns])

    policy.forward = forward
    trainer.train()
    return trainer.advantages, gradient.found


def compared(advantages: list[list[float]], gradient: list[list[float]], estimator: str) -> None:
    for name, ours, theirs in (
        ("advantages", advantages, same_rollouts.expected(estimator)),
        ("gradient", gradient, same_rollouts.expected_gradient(estimator)),
    ):
        difference = (torch.tensor(ours) - torch.tensor(theirs)).abs().max().item()
        print(f"{estimator}: largest difference of the {name}: {difference:.1e}")
        assert difference <= 1e-6
        assert max(map(max, theirs)) > 0.01


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("estimator", ["gtpo", "grpo_s"])
def test_advantages_and_gradient_are_those_of_every_trainer(estimator: str, steps: int, tmp_path: Path) -> None:
    compared(*one_step(tmp_path, estimator, ROWS // steps, steps), estimator)


def test_two_processes_have_the_same_advantages_and_gradient(tmp_path: Path) -> None:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run([*launcher, __file__, str(tmp_path)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    parts = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1)]
    for estimator in ("gtpo", "grpo_s"):
        (first, gradient), (second, other) = (part[estimator] for part in parts)
        assert len(first) == ROWS // 2
        assert gradient == other
        compared(first + second, gradient, estimator)


if __name__ == "__main__":  # the third prompt's responses are in both processes
    folder = Path(sys.argv[1])
    found = {estimator: one_step(folder, estimator, ROWS // 4, 2) for estimator in ("gtpo", "grpo_s")}
    (folder / f"{torch.distributed.get_rank()}.json").write_text(json.dumps(found))
    torch.distributed.destroy_process_group()
