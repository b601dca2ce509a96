"""A small part of the pairs and documents of ``tests/benchmarks/differential.py``, the same on every machine."""

import itertools
import sys
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import pytest

from math_reward.grader import grade

from ...scripts import script

PAIRS, DOCUMENTS = 1_000, 4_000


@pytest.fixture(scope="module")
def differential() -> ModuleType:
    return script(Path(__file__).resolve().parents[2] / "benchmarks" / "differential.py")


def test_two_writings_of_one_value_are_equal_and_of_two_values_are_not(differential: ModuleType):
    pairs = list(itertools.islice(differential.pairs(seed=3), PAIRS))
    wrong = [pair for pair in pairs if grade(pair.completion, pair.reference).correct != pair.same]

    assert {pair.kind for pair in pairs} == set(differential.NAMES)
    assert [pair for pair in wrong if not pair.same] == []
    assert len(wrong) <= 0.005 * PAIRS / 2, wrong


def test_generated_documents_are_paid_exactly_where_their_answer_is_right(differential: ModuleType):
    generated = sys.modules["generated.documents"]
    documents = list(itertools.islice(generated.documents(seed=3), DOCUMENTS))
    wrong = [one for one in documents if grade(one.completion, one.reference).correct != one.same]

    assert {one.kind for one in documents} == set(generated.NAMES)
    assert wrong == []


def test_a_pair_is_unequal_only_where_the_values_differ(differential: ModuleType):
    kinds = sys.modules["generated"].KINDS

    assert kinds["set"].value((Fraction(1), Fraction(2))) == kinds["set"].value((Fraction(2), Fraction(1)))
    assert kinds["nested set"].value(((1, 2), (3,))) == kinds["nested set"].value(((3,), (2, 1)))
    assert kinds["base"].value((20, 2)) == kinds["base"].value((20, 3))
    assert kinds["family"].value((Fraction(7, 6), Fraction(1))) == kinds["family"].value((Fraction(1, 6), Fraction(1)))
    assert kinds["progression"].value((3, 4, "Z")) == kinds["progression"].value((3, 1, "Z"))
    assert kinds["progression"].value((3, 4, "N")) != kinds["progression"].value((3, 1, "N"))


def test_the_value_of_a_deep_expression_is_calculated_from_its_tree(differential: ModuleType):
    value = sys.modules["generated"].KINDS["deep function"].value
    x, two = ("x",), ("n", Fraction(2))

    assert value(("^", ("+", x, two), 2)) == value(
        ("+", ("*", x, x), ("+", ("*", ("n", Fraction(4)), x), ("*", two, two)))
    )
    assert value(("/", ("*", two, x), Fraction(4))) != value(x)
    assert value(("-", x, x)) == value(("n", Fraction(0)))


def test_a_proposition_and_its_negation_have_opposite_truth_tables(differential: ModuleType):
    value = sys.modules["generated"].KINDS["proposition"].value
    implication = ("implies", "p", "q")

    assert value(implication) == value(("or", ("not", "p"), "q"))
    assert all(a is not b for a, b in zip(value(implication), value(("not", implication)), strict=True))


def test_the_interval_of_wilson_is_that_of_the_textbook(differential: ModuleType):
    low, high = differential.wilson(5, 100)  # Newcombe 1998, method 3

    assert (round(low, 3), round(high, 3)) == (0.022, 0.112)
    assert differential.wilson(0, 0) == (0.0, 1.0)
