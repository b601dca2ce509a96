"""Exact rational values, what has none, and that what is too big is refused and not computed."""

from fractions import Fraction

import pytest

from math_reward.grader.errors import TooComplex, Undefined
from math_reward.grader.notation.exact import MAX_BITS, exact, power
from math_reward.grader.notation.parse import parse
from math_reward.grader.words.functions import MAX_FACTORIAL


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("42", "42"),
        ("0.125", "1/8"),
        ("-1 1/2", "-3/2"),
        ("1/2 + 1/3 - 1", "-1/6"),
        (r"2 \cdot 3 / 4", "3/2"),
        (r"\frac{\frac12}{3}", "1/6"),
        ("2^{-3}", "1/8"),
        ("8^{2/3}", "4"),
        (r"\sqrt{4/9}", "2/3"),
        (r"\sqrt[3]{-27/8}", "-3/2"),
        ("(-1)^{99999999}", "-1"),
        ("1^{99999999}", "1"),
        ("0^5", "0"),
        ("5!", "120"),
        ("5!!", "15"),
        ("6!!", "48"),
        (r"\binom{5}{2}", "10"),
        (r"\lfloor -3/2 \rfloor", "-2"),
        (r"\lceil -3/2 \rceil", "-1"),
        ("|-3|", "3"),
        (r"\gcd(12, 18)", "6"),
        ("lcm(4, 6)", "12"),
        ("max(1, 5/2)", "5/2"),
        ("min(1, 5/2)", "1"),
        (r"(-7) \bmod 3", "2"),
        (r"50\%", "1/2"),
        ("101_2", "5"),
        (r"0.1\overline{6}", "1/6"),
    ],
)
def test_a_rational_value_is_exact(text: str, value: str):
    assert exact(parse(text)) == Fraction(value)


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "2x",
        r"\pi",
        r"\sqrt2",
        r"\sqrt{-4}",
        "(-8)^{1/3}",
        "(1/2)!",
        r"\sin 0",
        "5 cm",
        r"\gcd(1/2, 1)",
        "2^{1/65}",
    ],
)
def test_what_is_not_seen_to_be_rational_has_no_exact_value(text: str):
    assert exact(parse(text)) is None


@pytest.mark.parametrize("text", ["1/0", "1/(2-2)", "x/0", "0^0", "0^{-1}", "(-1)!", "(-3)!!", r"7 \bmod 0"])
def test_what_has_no_value_is_undefined(text: str):
    with pytest.raises(Undefined):
        exact(parse(text))


@pytest.mark.parametrize(
    "text",
    [
        "9^{9^{9^{9}}}",
        "10^{-9999}",
        f"2^{{{MAX_BITS + 1}}}",
        f"{MAX_FACTORIAL + 1}!",
        r"\binom{99999}{2}",
        r"2500! \cdot 2500!",
    ],
)
def test_what_is_too_big_is_refused(text: str):
    with pytest.raises(TooComplex):
        exact(parse(text))


def test_the_largest_powers_and_factorials_are_computed():
    assert exact(parse(f"2^{{{MAX_BITS - 1}}}")) == 2 ** (MAX_BITS - 1)
    assert exact(parse("2006! / 2004!")) == 2006 * 2005


def test_a_power_with_a_root_in_it_is_rational_where_the_root_is():
    assert power(Fraction(16, 81), Fraction(3, 4)) == Fraction(8, 27)
    assert power(Fraction(2), Fraction(1, 2)) is None
