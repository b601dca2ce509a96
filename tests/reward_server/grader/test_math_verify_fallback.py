"""Math-Verify as the optional last resort of the grader."""

import sys

import pytest

from math_reward.grader import Options, Stage, Verdict, grade

ASKED = Options(math_verify=True)


def test_it_is_not_asked_unless_the_options_say_so() -> None:
    assert grade(r"\boxed{\frac{x^2y}{2}}", r"\int\int x\,dx\,dy").verdict is Verdict.WRONG


@pytest.mark.parametrize(
    ("reference", "answer", "verdict"),
    [
        (r"\int\int x\,dx\,dy", r"\frac{x^2y}{2}", Verdict.CORRECT),
        (r"\int\int x\,dx\,dy", r"\frac{x^2y}{3}", Verdict.WRONG),
    ],
)
def test_it_decides_what_has_no_value_that_the_grader_knows(reference: str, answer: str, verdict: Verdict) -> None:
    pytest.importorskip(
        "math_verify", reason="Math-Verify is not installed: pip install './reward_server[math-verify]'"
    )
    result = grade(rf"\boxed{{{answer}}}", reference, options=ASKED)
    assert (result.verdict, result.stage) == (verdict, Stage.MATH_VERIFY)


@pytest.mark.parametrize(
    ("reference", "answer"), [("42", "43"), ("42", "41 = 42"), (r"\frac{1}{2004!}", r"\frac{1}{2006!}")]
)
def test_it_is_not_asked_about_what_the_grader_decided(reference: str, answer: str) -> None:
    result = grade(rf"\boxed{{{answer}}}", reference, options=ASKED)
    assert not result.correct
    assert result.stage is not Stage.MATH_VERIFY


def test_a_request_for_it_where_it_is_not_installed_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "math_verify", None)
    result = grade(r"\boxed{\frac{x^2y}{4}}", r"\int\int x\,dx\,dy", options=ASKED)
    assert result.verdict is Verdict.ERROR
    assert "pip install 'math-reward[math-verify]'" in (result.detail or "")
