"""The adapter for inspect_ai in real evaluations of its mock model."""

import math
from pathlib import Path

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog
from inspect_ai.model import ModelOutput, ModelUsage, get_model

from math_reward.adapters.inspect_ai import math_reward

ROWS = [
    ("What is 6 times 7?", r"It is \boxed{42}.", "42"),
    ("What is half of 1?", r"\boxed{\frac{1}{2}}", ["one half", "0.5"]),
    ("What is 6 times 7?", r"It is \boxed{41}.", "42"),
    ("What is 6 times 7?", "I do not know.", "42"),
]


def evaluated(folder: Path, url: str | None, rows: list[tuple[str, str, str | list[str]]]) -> EvalLog:
    outputs = [ModelOutput.from_content("mockllm/model", text) for _, text, _ in rows]
    for output in outputs:  # else inspect_ai downloads a tokenizer to count its tokens
        output.usage = ModelUsage()
    samples = [Sample(input=question, target=target) for question, _, target in rows]
    model = get_model("mockllm/model", custom_outputs=outputs)
    task = Task(dataset=samples, scorer=math_reward(url=url))
    # One sample after the other, since the model hands out its outputs in the order in which it is asked.
    (log,) = eval(task, model=model, log_dir=str(folder), display="none", max_samples=1)
    return log


def test_accuracy_is_that_of_the_graders_verdicts(url: str | None, graded: list[int], tmp_path: Path) -> None:
    log = evaluated(tmp_path, url, ROWS)
    assert log.status == "success", log.error
    scores = [sample.scores["math_reward"] for sample in log.samples]
    metrics = log.results.scores[0].metrics
    print([(one.value, one.answer, one.metadata) for one in scores], metrics["accuracy"].value)
    graded.append(len(ROWS))
    assert [one.value for one in scores] == ["C", "C", "I", "I"]
    assert [one.metadata["verdict"] for one in scores] == ["correct", "correct", "wrong", "no_answer"]
    assert [one.answer for one in scores] == ["42", r"\frac{1}{2}", "41", None]
    assert metrics["accuracy"].value == 0.5
    assert math.isclose(metrics["stderr"].value, math.sqrt(0.25 / 3))  # s / sqrt(n) with s² = 4 · 0.25 / 3


def test_a_reference_that_cannot_be_read_is_an_error_and_no_score(tmp_path: Path) -> None:
    log = evaluated(tmp_path, None, [*ROWS[:1], ("What?", r"\boxed{1}", "")])
    assert log.status == "error"
    assert "fix this row of the data" in log.error.message
