"""docs/disputes.jsonl: every line has its public thread and label, and says of this grader what is true today."""

import json
import re
from pathlib import Path
from typing import Any

from math_reward.grader import grade

ROWS = Path(__file__).resolve().parents[2] / "docs" / "disputes.jsonl"
OURS = "this project"
VERSIONS, *DISPUTES = [json.loads(line) for line in ROWS.read_text("utf-8").splitlines()]


def graded(row: dict[str, Any]) -> str:
    return row.get("completion") or rf"So it is \boxed{{{row['answer']}}}"


def test_the_graders_verdict_on_each_dispute_is_what_its_line_says() -> None:
    wrong = [
        row
        for row in DISPUTES
        if grade(graded(row), row["reference"]).correct is not (row["verdicts"][OURS] == "accepted")
    ]
    assert wrong == []


def test_every_dispute_has_a_public_thread_a_label_and_the_verdict_of_every_grader() -> None:
    assert len({(row["reference"], graded(row)) for row in DISPUTES}) == len(DISPUTES) >= 341
    for row in DISPUTES:
        assert re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+", row["thread"]), row
        assert isinstance(row["equal"], bool), row
        assert ("answer" in row) is not ("completion" in row), row
        assert row["kind"], row
        assert row["complaint"], row
        assert set(row["verdicts"]) == set(VERSIONS), row
