"""``math-reward compare``: both graders on a file, a table of their verdicts, and the rows on which they differ."""

import functools
import json
from pathlib import Path
from typing import Any

import pytest

from math_reward.pool.worker_pool import WorkerPool

from ...refusals import assert_refusal

pytest.importorskip("math_verify", reason="Math-Verify is in the extra 'math-verify'")

ROWS = [
    # Neither is given the prompt to grade.
    {"prompt": r"Is it \boxed{5}? ", "output": r"Is it \boxed{5}? I do not know.", "gold": "5", "label": False},
    {"output": r"\boxed{\frac12}", "gold": "0.5", "label": True},
    {"output": r"\boxed{8}", "gold": "7", "label": False},
    # A number in words is one for us, and a text for Math-Verify.
    {"output": r"\boxed{twenty-five}", "gold": "25", "label": True},
    # A contradiction is not rewarded by us; Math-Verify takes its right side.
    {"output": "so 41 = 42", "gold": "42", "label": False},
    {"output": r"\boxed{4}", "gold": "", "label": True},
]


@pytest.fixture
def command(in_process: Any) -> Any:
    return functools.partial(in_process, "compare", "--workers", "1")


def test_the_verdicts_of_both_graders_and_the_rows_on_which_they_differ(
    command: Any, write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("math_reward.commands.compare.LISTED", 3)
    output = tmp_path / "pairs.jsonl"

    code, printed, _ = command("--file", write(*ROWS, b"{"), "--output", str(output))

    pairs = [json.loads(line) for line in output.read_text().splitlines()]
    ours = ["no_answer", "correct", "wrong", "correct", "ambiguous", "bad_reference"]
    assert [pair["ours"]["verdict"] for pair in pairs] == ours
    assert [pair["math_verify"]["correct"] for pair in pairs] == [False, True, False, False, True, False]
    assert [pair["line"] for pair in pairs] == [1, 2, 3, 4, 5, 6]
    assert [pair["math_verify"]["answer"] for pair in pairs[1:3]] == [r"\frac{1}{2}", "8"]
    assert code == 1, "for the line that cannot be used"
    lines = [line.split() for line in printed.splitlines()]
    assert ["ambiguous", "correct", "1"] in lines
    assert ["bad_reference", "wrong", "1"] in lines
    assert "ours         accuracy 0.8333 of 6 labelled rows: 0 false accepts, 1 false rejects" in printed
    assert "Math-Verify  accuracy 0.5000 of 6 labelled rows: 1 false accepts, 2 false rejects" in printed
    differ = [line for line in printed.splitlines() if line.startswith("  line ")]
    assert [line.split(":")[0] for line in differ] == ["  line 4", "  line 5", "  line 7"]
    assert "ours correct, Math-Verify wrong: 'twenty-five' for '25'" in differ[0]
    assert pairs[4]["ours"]["detail"] in differ[1]
    assert "more, which" not in printed, "all three are listed"


def test_a_row_that_hangs_math_verify_is_a_timeout_and_ends_nothing(
    command: Any, write: Any, stub_graders: Any, monkeypatch: pytest.MonkeyPatch
):
    def pool(workers: int, deadline: float, *grader: Any, **more: Any) -> WorkerPool:
        return WorkerPool(workers, 0.5, stub_graders.obey_or_grade) if grader else WorkerPool(workers, deadline)

    monkeypatch.setattr("math_reward.pool.worker_pool.WorkerPool", pool)

    code, printed, _ = command("--file", write({"output": "hang", "gold": "1"}, {"output": "4", "gold": "4"}))

    lines = [line.split() for line in printed.splitlines()]
    assert code == 0
    assert ["timeout", "1"] in [line[1:] for line in lines]
    assert ["correct", "correct", "1"] in lines


def test_what_cannot_be_compared_is_refused(command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    missing = str(tmp_path / "none.jsonl")
    assert_refusal(command("--file", missing)[2], missing)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    code, _, said = command("--file", missing)
    assert code == 2
    assert_refusal(said, "math-reward[math-verify]")
