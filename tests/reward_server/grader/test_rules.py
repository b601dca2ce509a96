"""The table of rules: each has an example that it decides itself."""

import pytest

from math_reward.grader import Options
from math_reward.grader.notation.parse import parse
from math_reward.grader.notation.syntax import Node
from math_reward.grader.rules import RULES
from math_reward.grader.rules.comparison import Comparison, Rule
from math_reward.grader.rules.labels import without_label

LABELS, *OTHERS = RULES
by_name = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)


def bare(text: str) -> Node:
    return without_label(Comparison(Options(), RULES), parse(text))[1]


@by_name
def test_a_rule_accepts_and_rejects_as_its_example_says(rule: Rule):
    reference, accepted, rejected = rule.example

    assert Comparison(Options(), RULES).same(parse(reference), parse(accepted))
    assert not Comparison(Options(), RULES).same(parse(reference), parse(rejected))


@pytest.mark.parametrize("rule", OTHERS, ids=lambda rule: rule.name)
def test_a_rule_is_the_first_that_applies_to_its_example(rule: Rule):
    reference, accepted, _ = (bare(text) for text in rule.example)
    first = next(one for one in OTHERS if one.applies(reference, accepted))

    assert first.name == rule.name


def test_labels_come_off_first():
    reference, accepted, _ = (parse(text) for text in LABELS.example)

    assert LABELS.name == "label"
    assert LABELS.applies(reference, accepted)


def test_every_rule_has_a_name_of_its_own():
    assert len({rule.name for rule in RULES}) == len(RULES)
