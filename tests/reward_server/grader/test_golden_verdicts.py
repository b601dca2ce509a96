r"""The verdicts that the grader must give, row by row, and that the way an answer is delivered does not change them.

A row of ``golden_verdicts.jsonl`` is a reference, an answer as it stands in a box and the verdict of a mathematician.
"""

import json
import re
from pathlib import Path

import pytest

from math_reward.grader import Verdict, grade

ROWS = [json.loads(line) for line in Path(__file__).with_name("golden_verdicts.jsonl").read_text("utf-8").splitlines()]

# What cannot be put between dollar signs without saying something else: a dollar sign; and what is no mathematics.
_DELIMITER = re.compile(r"(?<!\\)\$|\\[()\[\]]")
# A space beside these changes nothing, neither in LaTeX nor on paper; beside a comma or a letter it may.
_SPACED = re.compile(r"(?<![<>=!~:+*/^e-])(=|\+|\\times(?![a-zA-Z])|\\cdot(?![a-zA-Z]))(?![=+-])", re.IGNORECASE)

parametrised = pytest.mark.parametrize(
    "row", [pytest.param(row, id=f"{row['about']}: {row['reference']} | {row['answer']}") for row in ROWS]
)


def verdict(answer: str, row: dict[str, str]) -> str:
    return grade(rf"So it is \boxed{{{answer}}}", row["reference"]).verdict.value


@parametrised
def test_the_verdict_is_that_of_a_mathematician(row: dict[str, str]):
    assert verdict(row["answer"], row) == row["verdict"]


@parametrised
def test_delimiters_and_harmless_spaces_change_no_verdict(row: dict[str, str]):
    answer = row["answer"]
    variants = [f"  {answer} ", f"\n{answer}\n", rf"\,{answer}~", rf"\displaystyle {answer}"]
    if "\\text" not in answer:
        variants.append(_SPACED.sub(r" \1 ", answer))
    if not _DELIMITER.search(answer):
        variants += [f"${answer}$", f"$${answer}$$", rf"\({answer}\)", rf"\[ {answer} \]"]

    assert {variant: verdict(variant, row) for variant in variants} == dict.fromkeys(variants, row["verdict"])


@parametrised
def test_a_formula_after_the_final_answer_is_has_the_verdict_that_it_has_in_a_box(row: dict[str, str]):
    answer = row["answer"]
    if _DELIMITER.search(answer) or "\n" in answer:
        pytest.skip("this answer has dollar signs or lines of its own and cannot stand between dollar signs")

    said = grade(f"Adding up, we are done. The final answer is ${answer}$.", row["reference"])

    assert said.verdict.value == row["verdict"]


def test_the_rows_ask_for_every_verdict_that_an_answer_can_have():
    given = {row["verdict"] for row in ROWS}

    assert given == {v.value for v in (Verdict.CORRECT, Verdict.WRONG, Verdict.AMBIGUOUS, Verdict.TOO_COMPLEX)}
    assert len(ROWS) == len({(row["reference"], row["answer"]) for row in ROWS}) > 200
