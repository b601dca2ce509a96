"""Why a verdict is what it is: the rule that decided, and a point where the two differ."""

import re

import pytest

from math_reward.grader import Options
from math_reward.page.explain import explain

from ...refusals import assert_refusal


@pytest.mark.parametrize(("reference", "answer"), [("x > 2", r"(2, \infty)"), ("x > 2", r"[2, \infty)")])
def test_the_rule_that_decided_is_shown(reference: str, answer: str):
    shown = explain(rf"\boxed{{{answer}}}", reference, None, Options())

    assert_refusal(str(shown.rule), "intervals")


@pytest.mark.parametrize("completion", ["", r"\boxed{42}", r"\boxed{1 +}", r"\boxed{1/0}"])
def test_without_a_comparison_of_trees_no_rule_decided(completion: str):
    shown = explain(completion, "42", None, Options())

    assert shown.rule is None


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
