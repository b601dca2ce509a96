"""The tables of rules, second readings and forms: each row has an example, which changes where the row is not."""

import pytest

from math_reward.grader import Options, Verdict, asked_form, compared, grade, grading
from math_reward.grader.asked_form import FORMS, Form
from math_reward.grader.errors import NotMathematics, TooComplex, Undefined
from math_reward.grader.extraction import values_at_end as endings
from math_reward.grader.extraction.values_at_end import values_at_end
from math_reward.grader.grading import SECOND_CHANCES, Chance, forget
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


@by_name
def test_without_its_row_the_example_of_a_rule_changes(rule: Rule):
    reference, *answers = rule.example
    others = Comparison(Options(), tuple(row for row in RULES if row is not rule))

    try:
        verdicts = [others.same(parse(reference), parse(answer)) for answer in answers]
    except (NotMathematics, TooComplex, Undefined, AssertionError):
        verdicts = []
    assert verdicts != [True, False]


def test_every_rule_has_a_name_of_its_own():
    assert len({rule.name for rule in RULES}) == len(RULES)


@pytest.mark.parametrize("reading", SECOND_READINGS, ids=lambda reading: reading.name)
def test_a_second_reading_accepts_and_rejects_as_its_example_says(reading: SecondReading):
    reference, accepted, rejected = reading.example

    assert grade(rf"\boxed{{{accepted}}}", reference).rule == reading.sentence
    assert not grade(rf"\boxed{{{rejected}}}", reference).correct


@pytest.mark.parametrize("reading", SECOND_READINGS, ids=lambda reading: reading.name)
def test_without_its_row_the_example_of_a_second_reading_changes(
    reading: SecondReading, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(compared, "SECOND_READINGS", tuple(row for row in SECOND_READINGS if row is not reading))
    forget()

    reference, accepted, _ = reading.example
    assert not grade(rf"\boxed{{{accepted}}}", reference).correct
    forget()


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_a_form_is_asked_for_as_its_example_says_and_by_no_other_row(form: Form, monkeypatch: pytest.MonkeyPatch):
    prompt, reference, answer = form.example
    completion = rf"{prompt} \boxed{{{answer}}}"

    assert grade(rf"{prompt} \boxed{{{reference}}}", reference, prompt).correct
    assert grade(completion, reference, prompt).verdict is Verdict.RESTATED
    monkeypatch.setattr(asked_form, "FORMS", tuple(row for row in FORMS if row is not form))
    assert grade(completion, reference, prompt).correct


@pytest.mark.parametrize("chance", SECOND_CHANCES, ids=lambda chance: chance.about)
def test_without_its_row_the_example_of_a_second_chance_changes(chance: Chance, monkeypatch: pytest.MonkeyPatch):
    prompt, reference, completion = chance.example

    assert grade(prompt + completion, reference, prompt).correct
    monkeypatch.setattr(grading, "SECOND_CHANCES", tuple(row for row in SECOND_CHANCES if row is not chance))
    assert not grade(prompt + completion, reference, prompt).correct


@pytest.mark.parametrize("table", ["ENDINGS", "VALUES"])
def test_without_its_row_the_example_of_an_ending_has_another_value(table: str, monkeypatch: pytest.MonkeyPatch):
    rows = getattr(endings, table)

    for place in rows:
        value = values_at_end(place.example)
        monkeypatch.setattr(endings, table, tuple(row for row in rows if row is not place))
        assert values_at_end(place.example) != value, place.about
        monkeypatch.undo()
