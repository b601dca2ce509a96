"""Units and what they measure; numbers in words."""

from fractions import Fraction

import pytest

from math_reward.grader.words.number_words import number_in_words
from math_reward.grader.words.units import is_thing, measure, same_thing, unit_name


@pytest.mark.parametrize(
    ("written", "size", "dimension"),
    [
        ("km", 1000, {"meter": 1}),
        ("km/h", Fraction(1000, 3600), {"meter": 1, "second": -1}),
        ("kg m/s^2", 1000, {"gram": 1, "meter": 1, "second": -2}),
        ("N", 1000, {"gram": 1, "meter": 1, "second": -2}),
        ("GN", 10**12, {"gram": 1, "meter": 1, "second": -2}),
        ("square feet", Fraction(3048, 10000) ** 2, {"meter": 2}),
        ("miles per hour", Fraction("1609.344") / 3600, {"meter": 1, "second": -1}),
        ("grams per cubic centimeter", 10**6, {"gram": 1, "meter": -3}),
        ("liters", Fraction(1, 1000), {"meter": 3}),
        ("mL", Fraction(1, 10**6), {"meter": 3}),
        ("days", 86_400, {"second": 1}),
    ],
)
def test_a_unit_measures_what_si_says(written: str, size: Fraction, dimension: dict[str, int]):
    assert measure(unit_name(written)) == (size, tuple(sorted(dimension.items())))


def test_what_is_no_unit_measures_nothing():
    assert measure(unit_name("apples")) is None
    assert measure("meter apples") is None


@pytest.mark.parametrize(
    ("unit", "other", "same"),
    [
        ("lollipops", "lollipop candies", True), ("boxes", "box", True), ("parties", "party", True),
        ("ways", "different ways", True), ("increase", "decrease", False), ("people east", "people west", False),
        ("red balls", "blue balls", False),
    ],
)  # fmt: skip
def test_a_counted_thing_may_be_named_more_or_less_closely(unit: str, other: str, same: bool):
    assert same_thing(unit, other) is same


@pytest.mark.parametrize("words", ["million", "and six", "squared", "or seven", "less than eight", "a b c d e f"])
def test_words_that_say_something_about_the_number_name_no_thing(words: str):
    assert not is_thing(words.split())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("zero", 0), ("twenty-five", 25), ("one hundred and five", 105), ("three thousand two hundred", 3200),
        ("two million", 2_000_000), ("minus seven", -7), ("one half", Fraction(1, 2)),
        ("three quarters", Fraction(3, 4)),
        ("two and a half", Fraction(5, 2)), ("a third", Fraction(1, 3)),
    ],
)  # fmt: skip
def test_a_number_in_words_is_that_number(text: str, value: Fraction):
    assert number_in_words(text) == value


@pytest.mark.parametrize(
    "text",
    ["", "two three", "twenty twelve", "one two half", "hundred", "half half", "minus", "minus minus one", "dog"],
)
def test_words_that_are_no_number_are_none(text: str):
    assert number_in_words(text) is None
