r"""Letters, signs and times beside a number; ``test_differential.py`` has words that change one."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from math_reward.grader import grade

NUMBERS = st.integers(3, 9_999)
LETTERS = st.lists(st.sampled_from("abcmnpquvxyz"), min_size=2, max_size=4, unique=True)


def paid(answer: str, reference: object) -> bool:
    return grade(rf"\boxed{{{answer}}}", str(reference)).correct


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
