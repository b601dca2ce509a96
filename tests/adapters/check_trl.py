"""The adapter for TRL in real GRPO runs of a random model: what TRL logs is what the grader says."""

from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from datasets import Dataset
from tiny_policy import QUESTIONS, on_a_cpu, tiny_policy
from trl import GRPOTrainer

from math_reward.adapters.trl import MathReward
from math_reward.adapters.verdicts import text_of
from math_reward.client import NotJudged
from math_reward.grader import grade


def trainer(folder: Path, reward: Any, chat: bool, answers: list[Any]) -> tuple[GRPOTrainer, list[list[Any]]]:
    """A trainer for two steps of eight completions, and the completions and answers that it will ask rewards for."""
    model, tokenizer = tiny_policy()
    seen: list[list[Any]] = []

    def spy(prompts: list[Any], completions: list[Any], target: list[Any], **_: Any) -> list[float]:
        seen.append([(text_of(c), t, text_of(p)) for p, c, t in zip(prompts, completions, target, strict=True)])
        return [0.0] * len(completions)

    rows = {"prompt": [[{"role": "user", "content": q}] if chat else q for q in QUESTIONS], "target": answers}
    sizes = {"per_device_train_batch_size": 8, "num_generations": 4, "max_completion_length": 3}
    made = GRPOTrainer(
        model=model,
        reward_funcs=[reward, spy],
        args=on_a_cpu(folder, max_steps=2, temperature=1.0, **sizes),
        train_dataset=Dataset.from_dict(rows),
        processing_class=tokenizer,
    )
    return made, seen


@pytest.mark.parametrize("chat", [False, True], ids=["texts", "messages"])
def test_two_steps_of_grpo_log_the_mean_of_the_graders_verdicts(
    url: str | None, chat: bool, graded: list[int], tmp_path: Path
) -> None:
    run, seen = trainer(tmp_path, MathReward(answer="target", url=url), chat, ["7", "8"])
    run.train()
    logged = [row["rewards/math_reward/mean"] for row in run.state.log_history if "rewards/math_reward/mean" in row]
    expected = [mean(grade(completion, target).reward for completion, target, _ in step) for step in seen]
    print("completions of the first step:", seen[0], "\nlogged:", logged, "\ngrader:", expected)
    graded.append(sum(map(len, seen)))
    assert len(seen) == 2
    assert [len(step) for step in seen] == [8, 8]
    assert logged == pytest.approx(expected)
    assert any(0 < one < 1 for one in expected), "a random model is right now and then"


def test_a_reference_that_cannot_be_read_ends_the_run_with_its_sentence(tmp_path: Path) -> None:
    run, _ = trainer(tmp_path, MathReward(answer="target"), False, ["7", ""])
    with pytest.raises(NotJudged, match="fix this row of the data"):
        run.train()
