"""GTPO in TRL with a real language model: 20 steps of SmolLM2-135M on word problems, in float32, with the grader's
rewards. Takes a quarter of an hour of two cores, and launch/setup.sh's .venv, which makes the model.
"""

import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from check_trl_gtpo import Watched, compared
from datasets import load_dataset
from tiny_policy import on_a_cpu
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback

from math_reward.adapters.trl import MathReward
from openrlhf_gtpo.shaping import gtpo

ROOT = Path(__file__).parents[2]
STEPS, PROMPTS, RESPONSES = 20, 2, 8


class WatchedRewards(Watched):
    def _calculate_rewards(self, *given: Any) -> torch.Tensor:
        rewards = super()._calculate_rewards(*given)
        self.correct = (rewards[:, 0] == 1).tolist()
        return rewards


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (python := ROOT / ".venv" / "bin" / "python").exists():
        pytest.skip("Run launch/setup.sh first: its .venv makes the model.")
    folder = tmp_path_factory.mktemp("task")
    command = [python, ROOT / "launch/smollm2/start.py", "--out", folder, "--prompts", str(STEPS * PROMPTS)]
    subprocess.run(command, check=True)
    return folder


def test_a_language_model_trains_with_the_papers_advantages(task: Path, tmp_path: Path) -> None:
    rows = load_dataset("json", data_files=str(task / "train.jsonl"), split="train")
    rows = rows.map(lambda row: {"input": [*row["input"][:3], row["input"][-1]]})  # one worked example of three
    settings = on_a_cpu(
        tmp_path,
        max_steps=STEPS,
        learning_rate=2e-5,
        per_device_train_batch_size=RESPONSES,  # of whose logits there is room
        gradient_accumulation_steps=PROMPTS,
        num_generations=RESPONSES,
        max_completion_length=32,
        loss_type="dapo",
    )
    run = WatchedRewards(
        AutoModelForCausalLM.from_pretrained(task / "model", dtype=torch.float32),
        MathReward(mode="strict"),
        shape=partial(gtpo),
        args=settings,
        train_dataset=rows.rename_columns({"input": "prompt", "label": "answer"}),
        processing_class=AutoTokenizer.from_pretrained(task / "model"),
    )
    run.remove_callback(PrinterCallback)
    run.train()

    # Entropies are of two forward passes in float32, and 1 / H is steep where H is near 0.
    assert compared(run.rollouts, partial(gtpo), RESPONSES, atol=2e-3) > STEPS / 2
