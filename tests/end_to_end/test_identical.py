"""Two runs compared to the bit: what is named of those that part, and what is left out."""

from pathlib import Path
from typing import Any

import pytest

from identical import compare

from ..plugin.report.files import lines, response, run
from ..refusals import assert_refusal

TIMES = {"time": 12.5, "timing/step_total": 3.0, "reward/requests_total": 40.0}


def metrics(folder: Path, rows: list[dict[str, Any]]) -> Path:
    folder.mkdir(exist_ok=True)
    lines(folder / "metrics.jsonl", [{"step": step, **row} for step, row in enumerate(rows, 1)])
    return folder


def test_a_run_and_its_copy_are_identical_to_the_last_step_that_both_have(tmp_path: Path) -> None:
    saved = [response(True, ["4", "2"], step=step) for step in (1, 2)]
    a, b = run(tmp_path / "a", saved, steps=3), run(tmp_path / "b", saved, steps=2)
    found = compare(a, b)
    assert (found.faults, found.steps, found.metrics, found.responses) == ([], 2, 2, 2)


def test_the_last_bit_of_one_metric_is_a_difference_and_a_time_is_none(tmp_path: Path) -> None:
    rows = [{"policy_loss": 0.1 + 0.2, "rollout/pass_rate": 0.5, **TIMES} for _ in range(3)]
    others = [{"policy_loss": 0.1 + 0.2, "rollout/pass_rate": 0.5, "time": 99.0, "timing/step_total": 9.0}] * 2
    a = metrics(tmp_path / "a", rows)
    b = metrics(tmp_path / "b", [*others, {**others[0], "policy_loss": 0.3}])
    (sentence,) = compare(a, b).faults
    assert_refusal(sentence, "step 3", "policy_loss is 0.30000000000000004 against 0.3", "1 of 2")


def group(number: int, *responses: dict[str, Any], step: int = 1) -> list[dict[str, Any]]:
    return [{**one, "step": step, "group": number} for one in responses]


GOOD, BAD = response(True, ["6", "*", "7", "42"]), response(False, ["4", "1"])


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        (group(1, GOOD, {**BAD, "tokens": ["4", "3"]}), "group 1, tokens, token 2: '1' against '3'."),
        (group(1, GOOD, {**BAD, "tokens": ["4"]}), "group 1, tokens, token 2: '1' against none."),
        (
            # The advantages of both differ since one has another entropy: that is where it began.
            group(1, GOOD, {**BAD, "advantage": [9.0] * 2, "entropy": [0.0, 0.25]}),
            "group 1, entropy, token 2: 0.5 against 0.25.",
        ),
        (group(1, GOOD, {**BAD, "correct": True}), "group 1, correct: False against True."),
        (group(1, {**GOOD, "prompt": "7*6?"}, BAD), "group 1, prompt: 'What is 6*7?' against '7*6?'."),
        (group(1, GOOD), "group 1, where the other has step 2, group 0."),
        ([], "group 1, where the other has step 2, group 0."),
    ],
    ids=["token", "length", "entropy", "verdict", "prompt", "size of a group", "group"],
)
def test_the_first_response_that_differs_is_named_with_its_token(
    changed: list[dict[str, Any]], named: str, tmp_path: Path
) -> None:
    first = group(0, GOOD, BAD)
    a = run(tmp_path / "a", [*first, *group(1, GOOD, BAD), *group(0, GOOD, step=2)])
    b = run(tmp_path / "b", [*first, *changed, *group(0, BAD, step=2)])
    (sentence,) = compare(a, b).faults
    assert_refusal(sentence, "first response that differs", "step 1", named)
