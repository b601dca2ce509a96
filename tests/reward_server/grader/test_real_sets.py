r"""Sets of reals, however they are written, as intervals in order: (low, its bracket, high, its bracket)."""

import math

import pytest

from math_reward.grader.mathematics.real_sets import intervals, is_set_like
from math_reward.grader.notation.parse import parse

inf = math.inf


def found(text: str) -> list[tuple[str, float, float, str]] | None:
    parts = intervals(parse(text))
    if parts is None:
        return None
    return [("[" if low.closed else "(", low.value, high.value, "]" if high.closed else ")") for low, high in parts]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("x > 2", [("(", 2, inf, ")")]),
        ("2 < x", [("(", 2, inf, ")")]),
        (r"(2, \infty)", [("(", 2, inf, ")")]),
        (r"\{x \mid x > 2\}", [("(", 2, inf, ")")]),
        (r"\{x \in \mathbb{R} : 2 < x\}", [("(", 2, inf, ")")]),
        ("2x + 1 > 5", [("(", 2, inf, ")")]),
        (r"-x \ge 3", [("(", -inf, -3, "]")]),
        (r"1 < x \le 2", [("(", 1, 2, "]")]),
        (r"x \in [1, 2)", [("[", 1, 2, ")")]),
        (r"x \ne 3", [("(", -inf, 3, ")"), ("(", 3, inf, ")")]),
        (r"\mathbb{R} \setminus \{1\}", [("(", -inf, 1, ")"), ("(", 1, inf, ")")]),
        (r"(-\infty, \infty)", [("(", -inf, inf, ")")]),
        (r"\mathbb{R}", [("(", -inf, inf, ")")]),
        (r"\emptyset", []),
        ("1 < x < 0", []),
        (r"\{2, 1\}", [("[", 1, 1, "]"), ("[", 2, 2, "]")]),
        (r"1 \pm 2", [("[", -1, -1, "]"), ("[", 3, 3, "]")]),
        (r"x < 1 \text{ or } x > 2", [("(", -inf, 1, ")"), ("(", 2, inf, ")")]),
    ],
)
def test_a_set_is_its_intervals(text: str, parts: list[tuple[str, float, float, str]]):
    assert found(text) == parts


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (r"[1, 2] \cup [2, 3]", [("[", 1, 3, "]")]),
        (r"[1, 2) \cup [2, 3]", [("[", 1, 3, "]")]),
        (r"[1, 2) \cup (2, 3]", [("[", 1, 2, ")"), ("(", 2, 3, "]")]),
        (r"(4, 5) \cup (1, 2)", [("(", 1, 2, ")"), ("(", 4, 5, ")")]),
        (r"[0, 9] \cup (1, 2)", [("[", 0, 9, "]")]),
        (r"[0, 5] \cap (3, 9)", [("(", 3, 5, "]")]),
        (r"[0, 3] \cap [3, 9)", [("[", 3, 3, "]")]),
        (r"[0, 3) \cap [3, 9)", []),
        (r"[0, 5] \setminus [2, 3)", [("[", 0, 2, ")"), ("[", 3, 5, "]")]),
        (r"[0, 5] \setminus \{5\}", [("[", 0, 5, ")")]),
    ],
)
def test_unions_intersections_and_differences_are_computed_with_their_ends(
    text: str, parts: list[tuple[str, float, float, str]]
):
    assert found(text) == parts


@pytest.mark.parametrize("text", ["x^2 < 4", "x > y", "(a, b)", "(1, 2, 3)", "(3, 1)", "x = y"])
def test_what_is_no_set_of_known_ends_has_no_intervals(text: str):
    assert intervals(parse(text)) is None


@pytest.mark.parametrize("text", ["x > 2", "[1, 2)", r"(2, \infty)", r"\{x | x > 1\}", r"\mathbb{R}", r"A \cup B"])
def test_what_can_only_be_a_set_is_set_like(text: str):
    assert is_set_like(parse(text))


@pytest.mark.parametrize("text", ["(1, 2)", "[1, 2]", "1, 2", r"\{1, 2\}", "42", "x = 2"])
def test_what_may_be_a_point_a_list_or_a_number_is_not(text: str):
    assert not is_set_like(parse(text))
