"""Which wrong answers are undecided: those where words alone differ. No verdict and no reward depends on it."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from math_reward.grader import Grade, Stage, Verdict, grade

PAGE = Path(__file__).resolve().parents[3] / "docs" / "judge.md"
UNDECIDED = [
    ("Evelyn", "Carla"),
    ("Evelyn", r"\text{Carla}"),
    ("Evelyn", "3"),
    ("3", "Evelyn"),
    ("bob", "Robert"),
    (r"\text{the line through A}", r"\text{the line through B}"),
    (r"\text{the line through A}", "y = 2x"),
    ("Petya will receive the last token.", "Vasya"),
    ("infinitely many", "0"),
    ("yes", "probably"),
    ("x = 3, y = Carla", r"x = 3, y = \text{Evelyn}"),
    (r"(\text{Carla}, 3)", r"(\text{Evelyn}, 3)"),
    ("May 1, 2019", "the first of May 2019"),
    (r"p \lor q", "one of the two holds"),
    ("B", "Paris"),
    ("分层抽样", "系统抽样"),
]
DECIDED = [
    ("4", "3"),
    ("x^2 + 1", "x^2 - 1"),
    (r"\sin x", r"\cos x"),
    ("no", "yes"),
    ("True", "False"),
    ("odd", "even"),
    ("C", "B"),
    ("ACD", r"\text{ACDE}"),
    (r"\{1, 2\}", r"\text{ACF}"),
    ("Evelyn, Carla", "3"),
    (r"(\text{Carla}, 3)", r"(\text{Evelyn}, 4)"),
    ("undefined", "0"),
    ("42", "not 42"),
    ("42", r"42 \text{ if } n \text{ is odd}"),
    ("42", "5 bogus"),
    ("42", "错误答案为42"),
    ("C", "(C) is wrong"),
    ("x+y", r"\text{not } x+y"),
    ("5 pears", "5 apples"),
    ("May 1, 2019", "May 2, 2019"),
    (r"p \lor q", r"p \land q"),
    ("0.5", "1//2"),
    ("bob", "tom"),
]


def graded(reference: str, answer: str) -> Grade:
    return grade(rf"\boxed{{{answer}}}", reference)


@pytest.mark.parametrize(("reference", "answer"), UNDECIDED)
def test_words_that_alone_differ_are_undecided(reference: str, answer: str):
    result = graded(reference, answer)
    assert (result.verdict, result.stage, result.reward) == (Verdict.WRONG, Stage.UNDECIDED, 0.0)
    assert result.undecided == (reference,)
    assert result.detail


@pytest.mark.parametrize(("reference", "answer"), DECIDED)
def test_all_else_is_decided(reference: str, answer: str):
    result = graded(reference, answer)
    assert not result.correct
    assert result.stage is not Stage.UNDECIDED
    assert result.undecided == ()


def test_of_several_references_each_that_words_leave_open_is_named():
    result = grade(r"\boxed{\text{Evelyn Smith}}", ["Carla", "yes", "Evelyn"])
    assert (result.stage, result.undecided, result.reference) == (
        Stage.UNDECIDED,
        ("Carla", "yes", "Evelyn"),
        "Carla",
    )
    assert grade(r"\boxed{3}", ["4", "Evelyn"]).undecided == ("Evelyn",)
    assert grade(r"\boxed{4}", ["Evelyn", "4"]).verdict is Verdict.CORRECT


ROWS = re.findall(r"^\| `(.+?)` \| `(.+?)` \| (undecided|decided): ", PAGE.read_text("utf-8"), re.M)


@pytest.mark.parametrize(("reference", "answer", "said"), ROWS)
def test_an_example_of_the_page_is_as_it_says(reference: str, answer: str, said: str):
    assert ("undecided" if graded(reference, answer).undecided else "decided") == said


def test_the_page_has_examples_of_both():
    assert {said for _, _, said in ROWS} == {"undecided", "decided"}


# Values that are made here, each with its own idea of what it is: a number, a formula in x, or a word.
NUMBERS = st.one_of(
    st.integers(-999, 999).map(str),
    st.tuples(st.integers(1, 99), st.integers(2, 99)).map(lambda pair: r"\frac{{{}}}{{{}}}".format(*pair)),
    st.integers(2, 99).map(lambda n: rf"\sqrt{{{n}}}"),
    st.integers(1, 99).map(lambda n: rf"{n}\pi"),
    st.integers(1, 99).map(lambda n: rf"{n}\text{{ cm}}"),
)
FORMULAS = st.tuples(st.integers(2, 9), st.integers(1, 9)).map(lambda pair: "x^{} + {}x".format(*pair))
OPEN_WORDS = st.sampled_from(
    ["Evelyn", "circle", "the midpoint", "isosceles", "Monday", "a right angle", "Vasya", "parallel", "西", "nobody"]
)


@given(st.one_of(NUMBERS, FORMULAS), st.one_of(NUMBERS, FORMULAS))
@settings(max_examples=150, deadline=None)
def test_values_without_words_are_always_decided(reference: str, answer: str):
    assert graded(reference, answer).undecided == ()


@given(OPEN_WORDS, OPEN_WORDS)
@settings(max_examples=100, deadline=None)
def test_two_words_are_the_same_or_undecided(reference: str, answer: str):
    result = graded(rf"\text{{{reference}}}", rf"\text{{{answer}}}")
    assert (result.verdict, result.stage is Stage.UNDECIDED) == (
        (Verdict.CORRECT, False) if reference == answer else (Verdict.WRONG, True)
    )


@given(NUMBERS, OPEN_WORDS, st.integers(0, 999))
@settings(max_examples=100, deadline=None)
def test_a_word_for_a_number_is_undecided_and_words_around_a_number_are_not(reference: str, word: str, number: int):
    assert graded(reference, rf"\text{{{word}}}").stage is Stage.UNDECIDED
    around = graded(reference, rf"{number} \text{{ {word} }}")
    assert around.stage is not Stage.UNDECIDED


PARTS = st.one_of(
    NUMBERS.map(lambda text: (text, "1000.5")), OPEN_WORDS.map(lambda w: (rf"\text{{{w}}}", r"\text{else}"))
)


@given(st.lists(PARTS, min_size=2, max_size=3), st.data())
@settings(max_examples=100, deadline=None)
def test_of_a_tuple_the_numbers_decide_and_the_words_do_not(parts: list[tuple[str, str]], data: st.DataObject):
    place = data.draw(st.integers(0, len(parts) - 1))
    reference = ", ".join(part for part, _ in parts)
    answer = ", ".join(other if index == place else part for index, (part, other) in enumerate(parts))
    is_word = parts[place][1] != "1000.5"
    result = graded(f"({reference})", f"({answer})")
    assert (result.verdict, result.stage is Stage.UNDECIDED) == (Verdict.WRONG, is_word)
