"""Values at points: branches, what is undefined, and that equality is believed to many digits alone."""

import cmath
import math

import pytest

from math_reward.grader.errors import TooComplex, Undefined
from math_reward.grader.mathematics.numeric import (
    Unknown,
    constant,
    evaluate,
    proportional,
    same_constant,
    same_function,
)
from math_reward.grader.notation.parse import parse


@pytest.mark.parametrize(
    ("text", "value"),
    [
        # Principal branches, as in every table.
        (r"\sqrt{-4}", 2j),
        (r"(-8)^{1/3}", 1 + 1j * math.sqrt(3)),
        (r"\log(-1)", 1j * math.pi),
        ("e^{i\\pi}", -1),
        ("i^2", -1),
        ("|3 + 4i|", 5),
        # The real root, which is what an index on the root sign means in school.
        (r"\sqrt[3]{-8}", -2),
        (r"\arcsin 2", cmath.asin(2)),
        (r"\cot 1", 1 / math.tan(1)),
        (r"\sec 1", 1 / math.cos(1)),
        (r"\operatorname{arccot}(-1)", 3 * math.pi / 4),
        (r"\log_2 8", 3),
        (r"\lg 1000", 3),
        (r"\sin 30^\circ", 0.5),
        ("(1/2)!", math.sqrt(math.pi) / 2),
        (r"\binom{1/2}{2}", -0.125),
        (r"\lfloor \pi \rfloor", 3),
        (r"\max(\pi, e)", math.pi),
    ],
)
def test_an_expression_has_the_value_of_its_principal_branch(text: str, value: complex):
    assert complex(evaluate(parse(text), {})) == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("text", [r"\log 0", r"1/(\pi - \pi)", "0^i", r"\csc 0"])
def test_what_has_no_value_at_a_point_is_undefined_and_no_constant(text: str):
    with pytest.raises(Undefined):
        evaluate(parse(text), {})
    assert constant(parse(text)) is None


@pytest.mark.parametrize("text", [r"\int_0^1 x", "f(2)", r"\infty", "x", r"5 \text{ cm}"])
def test_what_is_no_number_is_unknown(text: str):
    with pytest.raises(Unknown):
        evaluate(parse(text), {})


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (r"\sqrt2 \sqrt3", r"\sqrt6"),
        (r"\sqrt{5 + 2\sqrt6}", r"\sqrt2 + \sqrt3"),
        (r"\cos 36^\circ", r"\frac{1+\sqrt5}{4}"),
        (r"4\arctan\frac15 - \arctan\frac{1}{239}", r"\frac\pi4"),
        (r"e^{\ln 7}", "7"),
    ],
)
def test_constants_that_are_equal_are_equal_to_many_digits(left: str, right: str):
    assert same_constant(parse(left), parse(right))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        # Famous near misses: equal to 12, 30 and 15 digits.
        (r"e^{\pi\sqrt{163}}", "262537412640768744"),
        (r"\pi + 10^{-30}", r"\pi"),
        (r"\sqrt{2}", "1.4142135623730950488"),
        (r"\frac{355}{113}", r"\pi"),
    ],
)
def test_constants_that_are_nearly_equal_are_not(left: str, right: str):
    assert not same_constant(parse(left), parse(right))


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("2^x", "4^{x/2}", True),
        (r"\sqrt{x^2}", "|x|", True),
        (r"\sqrt{x^2}", "x", False),
        (r"2\log x", r"\log x^2", True),
        ("(-1)^n", r"\cos(n\pi)", True),
        (r"\arcsin x + \arccos x", r"\frac\pi2", True),
        ("x^{1/3}", r"\sqrt[3]{x}", True),
        ("(x+1)^{9999}", "(1+x)^{9999}", True),
        ("(x+1)^{9999}", "(2+x)^{9999}", False),
        ("n! (n+1)", "(n+1)!", True),
        ("x y", "x + y", False),
        (r"\frac{(n-10)!}{(n-11)!}", "n-10", None),
        ("1/(x-x)", "x", None),
    ],
)
def test_functions_are_the_same_where_they_agree_at_points_and_undecided_without_points(
    left: str, right: str, same: bool | None
):
    assert same_function(parse(left), parse(right)) is same


@pytest.mark.parametrize(
    ("left", "right", "positive", "same"),
    [
        ("x - 1", "2x - 2", True, True),
        ("x - 1", "1 - x", True, False),
        ("x - 1", "1 - x", False, True),
        ("x", "x^2", False, False),
        ("1/(x-x)", "x", False, None),
    ],
)
def test_two_sides_are_proportional_where_one_is_a_multiple_of_the_other(
    left: str, right: str, positive: bool, same: bool | None
):
    assert proportional(parse(left), parse(right), positive=positive) is same


@pytest.mark.parametrize("text", ["e^{e^{e^{e^{9}}}}", r"\pi^{\pi^{\pi^{\pi^{\pi}}}}", "10^{99999} \\pi"])
def test_a_huge_power_is_refused_and_not_computed(text: str):
    with pytest.raises(TooComplex):  # To compute them would run into the time limit of the test.
        same_constant(parse(text), parse("1"))
