r"""From text to tree: what is read how, what is refused, and where the limits are."""

from fractions import Fraction

import pytest

from math_reward.grader.errors import NotMathematics, TooComplex
from math_reward.grader.notation.parse import MAX_CHARACTERS, parse
from math_reward.grader.notation.syntax import (
    Bracketed,
    Collection,
    Number,
)
from math_reward.grader.notation.tokens import MAX_DIGITS, MAX_NESTING, MAX_TOKENS
from math_reward.grader.notation.values import words


def N(value: int | str) -> Number:
    return Number(Fraction(value))


def test_commas_between_thousands_are_a_list_where_that_is_asked_for():
    assert parse("1,234") == N(1234)
    assert parse("1,234", thousands=False) == Collection("list", (N(1), N(234)))
    assert parse("(1,234)") == Bracketed("(", ")", (N(1), N(234)))


@pytest.mark.parametrize(
    "text",
    [
        *("", " . ", "1 +", "1 = x_", "*2", "2 # 3", "42 43", "(1, 2", "(1]", "12_{\\pi}", "9_5"),
        *(r"\frac{1}{", r"\frac{1}{2", r"\text{cm", r"\text", r"\lfloor 1", r"\cdot"),
        *(r"1\frac{1}{10}_2", r"1\frac{1}10_2∪", r"\sin(1, 2)", r"\log_2(3, 4)", "1 = binom(1)"),
        *(r"\begin{matrix} 1 & 2 \\ 3 \end{matrix}", r"\begin{verse} 1 \end{verse}", r"\begin{matrix} 1"),
        *(r"\pi \text{ is not } x", r"x = 1 \text{ if } x \text{ is not } 2"),
    ],
)
def test_what_cannot_be_read_is_refused(text: str):
    with pytest.raises(NotMathematics):
        parse(text)


@pytest.mark.parametrize(
    ("within", "beyond", "limit"),
    [
        ("x" + " " * (MAX_CHARACTERS - 2) + "y", "x" + " " * (MAX_CHARACTERS - 1) + "y", "2,001 characters"),
        ("+".join("1" * (MAX_TOKENS // 2)), "+".join("1" * (MAX_TOKENS // 2 + 1)), "400 tokens"),
        ("9" * MAX_DIGITS, "9" * (MAX_DIGITS + 1), "400 digits"),
        ("9" + ",999" * 133, "9" + ",999" * 134, "400 digits"),
        ("1e400", "1e401", "power of ten"),
        ("{" * 50 + "1" + "}" * 50, "{" * (MAX_NESTING + 1) + "1" + "}" * (MAX_NESTING + 1), "60 deep"),
        ("-" * MAX_NESTING + "1", "-" * (MAX_NESTING + 1) + "1", "60 signs"),
        ("9" + "!!" * 20, "9" + "!!" * 61, "60 deep"),
        ("9" + "!" * 40, "9" + "!" * 130, "60 deep"),
    ],
)
def test_a_text_up_to_the_limits_is_read_and_one_beyond_them_is_too_complex(within: str, beyond: str, limit: str):
    parse(within)
    with pytest.raises(TooComplex, match=limit):
        parse(beyond)


def test_words_are_compared_without_their_markup():
    assert words(r"\text{(Monday)}.") == "monday"
    assert words(r"\textbf{  Blue   car }") == "blue car"
    assert words("A") == "A"
