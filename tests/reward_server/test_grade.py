"""The grader as a library: which verdict for which completion and reference."""

import subprocess
import sys

import pytest

from math_reward.grader import Verdict, grade

BOX = r"So the answer is $\boxed{%s}$."

ACCEPTED = [
    # The reference as plain text, and the same in LaTeX.
    ("42", BOX % "42"),
    ("3/4", BOX % r"\frac{3}{4}"),
    ("3/4", BOX % "0.75"),
    (r"\frac{1}{2}", BOX % r"\dfrac12"),
    ("x^2+1", BOX % "1 + x^2"),
    ("(1,2)", BOX % "(1, 2)"),
    ("$x = 5$", BOX % "5"),
    (r"\[ 7 \]", BOX % "7"),
    (r"\boxed{7}", BOX % "7.0"),
    ("She has 3 + 4 = <<3+4=7>>7 apples.\n#### 7", BOX % "7"),
    ("-5", BOX % "-5"),
    ("1,000", BOX % "1000"),
    ("1 000", BOX % "1000"),
    ("1e-05", BOX % "0.00001"),
    ("$5", BOX % "5"),
    ("10", BOX % r"\$10"),
    ("50%", BOX % r"50\%"),
    ("42.", BOX % "42"),
    ("x\n+ 1", BOX % "x+1"),
    (r"\text{Evelyn}", BOX % r"\text{Evelyn}"),
    ("{1,2}", BOX % "2, 1"),
    ("[0,1)", BOX % "[0, 1)"),
    (r"2\sqrt{3}", BOX % r"\sqrt{12}"),
    # Which part of the completion is the answer.
    ("42", r"First \boxed{41}, but no: \boxed{42}"),
    ("42", r"<think>perhaps \boxed{41}</think> It is \boxed{42}."),
    ("42", r"\boxed{\boxed{42}}"),
    ("42", r"\fbox{42}"),
    ("42", r"\boxed{42} \boxed{42}"),
    ("1/2", r"\boxed{\frac{1}{2}} and an unfinished \boxed{"),
    ("{1,2,3}", r"\boxed{1}, \boxed{2} and \boxed{3}"),
    ("42", "6 times 7, so the final answer is 42."),
    ("42", "6 * 7 is\n#### 42"),
    (r"\frac{1}{2}", r"The answer is $\frac{1}{2}$."),
]

REJECTED = [
    ("42", BOX % "41"),
    ("42", r"It is \boxed{42}. No, it is \boxed{43}."),
    ("42", r"<think>It is \boxed{42}.</think> I say \boxed{43}."),
    ("42", r"\boxed{42}, \boxed{43}"),
    ("42", BOX % "42, 43"),
    ("42", BOX % r"42 \text{ or } 43"),
    ("42", "The answer is 43."),
    ("0", BOX % r"1000 \neq 0"),
    ("1 000", BOX % "0"),
    ("1e-5", BOX % "1"),
    ("2", BOX % "2√3"),
    (r"2\sqrt{3}", BOX % "2"),
    ("x^2+1", BOX % "1"),
    ("x = 5", BOX % "6"),
    ("[0,1)", BOX % "[0,1]"),
    ("(1,2,3)", BOX % "(3,2,1)"),
    ("42", BOX % "__import__('os').getpid()"),
]

# Not in these tables, because Math-Verify gets them wrong: it rejects "w=16, d=3" for "16,3", 120 degrees for 2pi/3,
# "12^{th}" for 12, {x | 2 < x < 3} and 2 < x < 3 for (2,3), clock times, and 27/59 for the rounded 0.458; it accepts
# "41=42" for 42, "42 \approx 43" for 42, 1/2006! for 1/2004!, and 5 km for 5 cm.


@pytest.mark.parametrize(("reference", "completion"), ACCEPTED)
def test_an_equal_answer_is_correct(reference: str, completion: str):
    result = grade(completion, reference)

    assert (result.verdict, result.correct, result.reward) == (Verdict.CORRECT, True, 1.0)
    assert result.answer
    assert result.reference == reference


@pytest.mark.parametrize(("reference", "completion"), REJECTED)
def test_another_answer_is_wrong(reference: str, completion: str):
    result = grade(completion, reference)

    assert (result.verdict, result.correct, result.reward) == (Verdict.WRONG, False, 0.0)
    assert result.answer


def test_the_answer_is_what_the_last_box_holds():
    assert grade(r"\boxed{1}, so \boxed{ \frac{1}{2} }", "3").answer == r"\frac{1}{2}"


@pytest.mark.parametrize(
    "completion",
    [
        "",
        "   \n",
        "I do not know.",
        r"\boxed{}",
        r"It is \boxed{42",
        r"<think>\boxed{42}</think>",
        r"<think>It is \boxed{42}.</think> Hm.",
    ],
)
def test_a_completion_without_a_final_answer_is_no_answer(completion: str):
    result = grade(completion, "42")

    assert (result.verdict, result.answer, result.reward) == (Verdict.NO_ANSWER, None, 0.0)


@pytest.mark.parametrize(
    "reference", ["", "  ", "$ $", r"\boxed{}", "???", r"\frac{1}{", "1+", "9" * 401, "x+" * 1000 + "x"]
)
@pytest.mark.parametrize("completion", [r"\boxed{42}", r"\boxed{}", "no box"])
def test_a_reference_that_is_no_mathematics_is_a_bad_reference_whatever_the_completion(
    reference: str, completion: str
):
    result = grade(completion, reference)

    assert (result.verdict, result.reward) == (Verdict.BAD_REFERENCE, 0.0)
    assert result.detail is not None
    assert result.detail.startswith("The reference answer cannot be used: ")


def test_a_bad_reference_is_not_paid_even_where_the_completion_repeats_it():
    assert grade(r"\boxed{???}", "???").verdict is Verdict.BAD_REFERENCE


@pytest.mark.parametrize("answer", ["9" * 401, "(" * 61 + "1" + ")" * 61, "1+" * 1000 + "1"])
def test_an_answer_beyond_the_limits_is_too_complex(answer: str):
    result = grade(rf"\boxed{{{answer}}}", "42")

    assert (result.verdict, result.reward) == (Verdict.TOO_COMPLEX, 0.0)
    assert result.detail is not None
    assert result.detail.startswith("The answer was not looked at: it")


def test_an_answer_within_the_limits_is_looked_at():
    assert grade(rf"\boxed{{{'9' * 400}}}", "9" * 400).verdict is Verdict.CORRECT


def test_the_prompt_is_cut_off_before_grading():
    prompt = r"Example: 1+1 = \boxed{2}. Now 6*7 = "

    assert grade(prompt + r"\boxed{42}", "42", prompt).verdict is Verdict.CORRECT
    assert grade(prompt + "I do not know", "2", prompt).verdict is Verdict.NO_ANSWER
    assert grade(r"\boxed{42}", "42", prompt).verdict is Verdict.PROMPT_NOT_FOUND


def test_the_grader_needs_neither_torch_nor_the_web_framework():
    code = (
        "import sys, math_reward.workers; print(*{'torch', 'fastapi', 'uvicorn'} & set(sys.modules), sep='', end='.')"
    )

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "."
