"""What docs/grader.md and docs/grader_rules.md say in their tables is so."""

import itertools
import re
from pathlib import Path

import pytest

from math_reward.grader import Mode, Options, grade

DOCS = Path(__file__).resolve().parents[3] / "docs"
TEXT = "\n".join((DOCS / page).read_text("utf-8") for page in ("grader.md", "grader_rules.md"))


def table(heading: str) -> list[list[str]]:
    """The rows of all tables whose first column has this heading."""
    rows = [
        row
        for after in TEXT.split(f"\n| {heading} |")[1:]
        for row in itertools.takewhile(lambda line: line.startswith("|"), after.splitlines()[2:])
    ]
    return [
        [cell.strip().strip("`").replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows
    ]


@pytest.mark.parametrize(("completion", "strict", "lenient"), table("completion"))
def test_a_completion_states_what_the_table_says(completion: str, strict: str, lenient: str):
    for mode, expected in ((Mode.STRICT, strict), (Mode.LENIENT, lenient)):
        answer = grade(completion, "0", options=Options(mode=mode)).answer

        assert ("-" if answer is None else answer.rstrip(".")) == expected


@pytest.mark.parametrize("row", table("reference"), ids=" | ".join)
def test_a_convention_is_as_the_table_says(row: list[str]):
    reference, answer, ours = row[:3]

    assert grade(rf"So it is $\boxed{{{answer}}}$.", reference).correct is (ours == "accepted")


@pytest.mark.parametrize(("written", "number"), table("written"))
def test_a_notation_is_read_as_the_table_says(written: str, number: str):
    assert grade(rf"So it is $\boxed{{{written}}}$.", number).correct
    assert not grade(rf"So it is $\boxed{{{written}}}$.", f"({number})+1").correct
