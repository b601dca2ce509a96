"""Some steps of TRL's GRPOTrainer on a CPU, for `bench_trl.py`, in TRL's environment.

    python trl_step.py MODEL DATA OUT.json STEPS

Writes a list with an object for each step: its seconds, and how many of them generation and the update took.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from math_reward.adapters.trl import MathReward

PROMPTS, RESPONSES, TOKENS, MICRO = 8, 8, 48, 16


class Timed(GRPOTrainer):
    """Knows when it generates, and when it computes log-probabilities and rewards besides."""

    seconds: dict[str, float]

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        begin = time.perf_counter()
        found = super()._generate(*args, **kwargs)
        self.seconds["generation"] += time.perf_counter() - begin
        return found

    def _generate_and_score_completions(self, *args: Any, **kwargs: Any) -> Any:
        begin = time.perf_counter()
        found = super()._generate_and_score_completions(*args, **kwargs)
        self.seconds["scored"] += time.perf_counter() - begin
        return found


class Steps(TrainerCallback):
    """Keeps the seconds of each step."""

    def __init__(self) -> None:
        self.lines: list[dict[str, float]] = []
        self.trainer: Timed

    def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
        self.begin = time.perf_counter()
        self.trainer.seconds = {"generation": 0.0, "scored": 0.0}

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        step, known = time.perf_counter() - self.begin, self.trainer.seconds
        scored = known["scored"] - known["generation"]
        self.lines.append(
            {
                "step": step,
                "generation": known["generation"],
                "log-probabilities": scored,
                "update": step - known["scored"],
            }
        )


def main() -> None:
    model, data, out, steps = sys.argv[1:]
    rows = [json.loads(line) for line in Path(data).read_text(encoding="utf-8").splitlines()]
    rows = rows[: PROMPTS * int(steps)]
    native = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    timer = Steps()
    trainer = Timed(
        model=AutoModelForCausalLM.from_pretrained(model, dtype=torch.bfloat16 if native else torch.float32),
        reward_funcs=MathReward(answer="label", mode="strict"),
        args=GRPOConfig(
            output_dir=str(Path(out).with_suffix("")),
            use_cpu=True,
            bf16=False,
            max_steps=int(steps),
            per_device_train_batch_size=MICRO,
            gradient_accumulation_steps=PROMPTS * RESPONSES // MICRO,
            num_generations=RESPONSES,
            max_completion_length=TOKENS,
            beta=0.0,
            learning_rate=1e-6,
            report_to=[],
            save_strategy="no",
        ),
        train_dataset=Dataset.from_list([{"prompt": row["input"], "label": row["label"]} for row in rows]),
        processing_class=AutoTokenizer.from_pretrained(model),
        callbacks=[timer],
    )
    timer.trainer = trainer
    trainer.train()
    Path(out).write_text(json.dumps(timer.lines))


if __name__ == "__main__":
    main()
