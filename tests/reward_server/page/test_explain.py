"""Why a verdict is what it is: the rule that decided, and the parts that differ."""

import re

import pytest

from math_reward.grader import Options
from math_reward.page.explain import explain

from ...refusals import assert_refusal


def bare(mathml: str) -> str:
    return re.sub("<[^>]*>", "", mathml)


@pytest.mark.parametrize(
    ("reference", "answer", "parts"),
    [
        ("(1, 2, 3)", "(1, 5, 3)", ("2", "5")),
        (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", r"\begin{pmatrix} 1 & 2 \\ 3 & 7 \end{pmatrix}", ("4", "7")),
        ("a = 1, b = 2", "b = 9, a = 1", ("2", "9")),
    ],
)
def test_the_first_parts_that_differ_are_shown(reference: str, answer: str, parts: tuple[str, str]):
    shown = explain(rf"\boxed{{{answer}}}", reference, None, Options())

    assert shown.difference_mathml is not None
    assert (bare(shown.difference_mathml[0]), bare(shown.difference_mathml[1])) == parts


@pytest.mark.parametrize(("reference", "answer"), [("x > 2", r"(2, \infty)"), ("x > 2", r"[2, \infty)")])
def test_the_rule_that_decided_is_shown(reference: str, answer: str):
    shown = explain(rf"\boxed{{{answer}}}", reference, None, Options())

    assert_refusal(str(shown.rule), "intervals")
    assert shown.difference_mathml is None  # The whole is what differs, if anything.


@pytest.mark.parametrize("completion", ["", r"\boxed{42}", r"\boxed{1 +}", r"\boxed{1/0}"])
def test_without_a_comparison_of_trees_no_rule_decided(completion: str):
    shown = explain(completion, "42", None, Options())

    assert shown.difference_mathml is None


@pytest.mark.parametrize(
    ("reference", "answer", "at"),
    [
        ("x^2", "x^3", "At x = "),
        ("y = 2x + 1", "y = 2x - 1", "At x = "),
        (r"(1, \theta)", r"(1, 2\theta)", "At theta = "),
    ],
)
def test_two_functions_are_shown_at_a_point_where_they_differ(reference: str, answer: str, at: str):
    shown = explain(rf"\boxed{{{answer}}}", reference, None, Options())

    assert shown.rule is not None
    assert at in shown.rule
    found = re.search(r"reference is (\S+) .* answer (\S+)\.$", shown.rule)
    assert found is not None
    assert float(found[1]) != float(found[2])


def test_two_propositions_are_shown_in_a_line_of_their_truth_tables():
    shown = explain(r"\boxed{q \implies p}", r"p \implies q", None, Options())

    assert_refusal(str(shown.rule), "p is false", "q is true")
