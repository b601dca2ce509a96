r"""Words around a number: what they may be, and that they are never dropped where they change it."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from math_reward.grader import grade
from math_reward.grader.words.vocabulary import NO_LABELS

NUMBERS = st.integers(3, 9_999)
CHANGES = [
    "dozens", "hundreds", "thousands", "millions", "lakh", "crore", "gross", "score", "pairs", "couples", "tens",
    "trios", "permille", "ppm", "doubled", "tripled", "halved", "negative", "bogus", "fake", "odd", "imaginary",
    "reciprocal", "feet square", "squared", "x", "~i", "pi", "over 7", "on top of 10", "with 7", "each 7", "as 7",
    "per 7", "given 7",
    "or more", "for odd n", "percentile or 3", "removed or 7",
]  # fmt: skip
LETTERS = st.lists(st.sampled_from("abcmnpquvxyz"), min_size=2, max_size=4, unique=True)


def paid(answer: str, reference: object) -> bool:
    return grade(rf"\boxed{{{answer}}}", str(reference)).correct


@given(NUMBERS, st.sampled_from(CHANGES), st.sampled_from(["text", "mathrm", "textbf"]))
def test_no_word_that_changes_a_number_is_a_unit(number: int, word: str, font: str):
    assert not paid(rf"{number} \{font}{{ {word}}}", number)


@given(NUMBERS, st.sampled_from(["-", "1/", "<", ">", "\\ge", "−", "+1+", "3\\cdot", "~-"]))
def test_no_sign_in_a_text_before_a_number_is_dropped(number: int, sign: str):
    assert not paid(rf"\text{{{sign}}}{number}", number)
    assert not paid(rf"\text{{{sign}{number}}}", number)


@given(NUMBERS, st.sampled_from(["²", "...", "!", "^2", "+1", "%1", "e5"]))
def test_no_sign_in_a_text_after_a_number_is_dropped(number: int, sign: str):
    assert not paid(rf"{number}\text{{{sign}}}", number)


@given(NUMBERS, st.sampled_from(sorted(NO_LABELS)), st.sampled_from([" = ", "{}: ", "\\text{ is }"]))
def test_no_value_of_something_else_is_the_answer(number: int, word: str, link: str):
    assert not paid(rf"\text{{{word} area}}{link}{number}", number)


@given(NUMBERS, st.sampled_from(["错误答案", "平方", "一半", "答案加一", "两倍", "倒数", "相反数", "另一个"]))
def test_no_value_of_something_else_in_chinese_is_the_answer(number: int, label: str):
    for link in ("为", "是", "=", ":"):
        assert not paid(f"{label}{link}{number}", number)
        assert not paid(rf"\text{{{label}{link}}}{number}", number)


@given(LETTERS, st.data(), NUMBERS)
def test_an_expression_with_its_value_is_that_value_and_no_other(letters: list[str], data: st.DataObject, value: int):
    sign = data.draw(st.sampled_from(["+", "-", " \\cdot ", ""]))
    expression = sign.join(letters)

    assert paid(f"{expression} = {value}", value)
    assert paid(f"{expression}={value - 1}+1={value}", value)
    assert not paid(f"{expression} = {value + 1}", value)
    assert not paid(f"{expression} = {value}", value + 1)
    assert not paid(f"{expression} = {value} = {value + 1}", value)
    assert not paid(f"{expression} < {value}", value)


@given(st.sampled_from("xyn"), st.integers(2, 40), st.integers(-9, 9).filter(bool), NUMBERS)
def test_an_equation_that_is_left_to_be_solved_is_no_value(name: str, factor: int, rest: int, value: int):
    assert not paid(f"{factor}{name} = {value}", value)
    assert not paid(f"{factor}{name}{rest:+d} = {value}", value)
    assert not paid(rf"\frac{{{name}}}{{{factor}}} = {value}", value)


@given(st.integers(1, 99), st.integers(1, 99))
def test_minus_plus_is_the_opposite_of_plus_minus(a: int, b: int):
    right = {(a, -b), (-a, b)}
    for points in itertools.combinations(itertools.product((a, -a), (b, -b)), 2):
        answer = ",".join(f"({x},{y})" for x, y in points)
        assert paid(answer, rf"(\pm{a},\mp{b})") == (set(points) == right)
    assert not paid(rf"(\pm{a},\pm{b})", rf"(\pm{a},\mp{b})")
    assert paid(rf"\mp{a}\pm{b}i", rf"\pm({b}i-{a})")
    assert paid(rf"\pm{a}\pm{b}i", rf"\pm({a}-{b}i)") is False


@given(st.integers(1, 999), st.integers(0, 999))
def test_a_list_is_a_number_with_commas_only_where_it_is_written_like_one(first: int, second: int):
    number = f"{first},{second:03d}"

    assert not paid(rf"\{{{first},{second}\}}", number)
    assert not paid(f"{first}; {second}", number)
    assert not paid(f"x={first}, y={second}", number)


@given(st.integers(1, 12))
def test_a_full_hour_is_no_ratio(hour: int):
    assert not paid("1:0", f"{hour}:00")
    assert paid(rf"{hour}:00 \text{{ PM}}", f"{hour}:00")
    assert not paid(rf"{hour}:00 \text{{ PM}}", rf"{hour}:00 \text{{ AM}}")
