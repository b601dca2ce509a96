"""The tables of rules and of second readings: each row has an example that it decides itself."""

import pytest

from math_reward.grader import Options, grade
from math_reward.grader.notation.parse import parse
from math_reward.grader.notation.syntax import Node
from math_reward.grader.rules import RULES
from math_reward.grader.rules.comparison import Comparison, Rule
from math_reward.grader.rules.labels import without_label
from math_reward.grader.second_readings import SECOND_READINGS, SecondReading

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


@pytest.mark.parametrize("reading", SECOND_READINGS, ids=lambda reading: reading.name)
def test_a_second_reading_accepts_and_rejects_as_its_example_says(reading: SecondReading):
    reference, accepted, rejected = reading.example

    assert grade(rf"\boxed{{{accepted}}}", reference).rule == reading.sentence
    assert not grade(rf"\boxed{{{rejected}}}", reference).correct
