"""Whatever a rule accepts has the same value or the same solutions by an independent calculation, and the reverse."""

from fractions import Fraction

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from math_reward.grader import grade

settings.register_profile("rules", max_examples=60, deadline=None, derandomize=True)
bounded = settings(settings.get_profile("rules"))

small = st.integers(-3, 3)
x, y = sympy.symbols("x y")
SIDES = ["x", "y", "|x|", "x^2", "2y", "x+y", r"\max(x,0)", "0", "1", r"\sqrt{x^2}", "-x"]
SYMPY = {
    "x": x, "y": y, "|x|": abs(x), "x^2": x**2, "2y": 2 * y, "x+y": x + y, r"\max(x,0)": sympy.Max(x, 0),
    "0": 0, "1": 1, r"\sqrt{x^2}": abs(x), "-x": -x,
}  # fmt: skip
GRID = [(a, b) for a in (-2, -1, 0, 1, 2) for b in (-4, -2, -1, 0, 1, 2, 4)]


def accepted(reference: str, answer: str) -> bool:
    return grade(rf"\boxed{{{answer}}}", reference).correct


@bounded
@given(st.sampled_from(SIDES), st.sampled_from(SIDES), st.sampled_from(SIDES), st.sampled_from(SIDES), small)
def test_equations_that_are_accepted_have_the_same_solutions(a: str, b: str, c: str, d: str, factor: int):
    if not accepted(f"{a} = {b}", f"{factor}({c}) = {factor}({d})"):
        return
    left, right = sympy.sympify(SYMPY[a]) - SYMPY[b], factor * (sympy.sympify(SYMPY[c]) - SYMPY[d])
    for p, q in GRID:
        point = {x: p, y: q}

        assert (left.subs(point) == 0) == (right.subs(point) == 0)


@bounded
@given(st.lists(small, min_size=2, max_size=3), st.lists(small, min_size=2, max_size=3))
def test_ratios_are_the_same_where_they_are_proportional_and_not_all_zero(left: list[int], right: list[int]):
    def points(terms: list[int]) -> sympy.Matrix:
        return sympy.Matrix([terms])

    if left == right:
        return  # The same text says the same, whatever it says.
    same = len(left) == len(right) and any(left) and any(right)
    same = same and points(left).col_join(points(right)).rank() == 1
    # 3:0 and -3:0 are one ratio, as 3:1 and -3:-1 are.
    assert accepted(":".join(map(str, left)), ":".join(f"({n})" if n < 0 else str(n) for n in right)) == same


@bounded
@given(st.integers(2, 9), st.integers(-20, 20), st.integers(2, 9), st.integers(-20, 20))
def test_congruences_are_the_same_where_their_progressions_are(m: int, a: int, n: int, b: int):
    same = m == n and (a - b) % m == 0

    assert accepted(rf"x \equiv {a} \pmod{{{m}}}", rf"x \equiv {b} \pmod{{{n}}}") == same
    assert accepted(rf"x \equiv {a} \pmod{{{m}}}", f"{n}k + {b}") == same


steps = st.fractions(min_value=Fraction(1, 4), max_value=2, max_denominator=4)
starts = st.fractions(min_value=-1, max_value=1, max_denominator=6)


@bounded
@given(starts, steps, starts, steps)
def test_families_are_the_same_where_they_are_the_same_set(a: Fraction, p: Fraction, b: Fraction, q: Fraction):
    def written(start: Fraction, step: Fraction, name: str) -> str:
        first, second = (rf"\frac{{{value.numerator}}}{{{value.denominator}}}" for value in (start, step))
        return rf"{first}\pi + {second}{name}\pi"

    assert accepted(written(a, p, "k"), written(b, q, "n")) == (p == q and (a - b) % p == 0)


@bounded
@given(st.lists(st.lists(small, min_size=1, max_size=3), min_size=1, max_size=3), st.data())
def test_sets_of_sets_are_the_same_where_python_says_so(first: list[list[int]], data: st.DataObject):
    second = data.draw(
        st.permutations(first).map(list) | st.lists(st.lists(small, min_size=1, max_size=2), max_size=3)
    )
    if not second:
        return

    def written(sets: list[list[int]]) -> str:
        return r"\{" + ", ".join(r"\{" + ", ".join(map(str, one)) + r"\}" for one in sets) + r"\}"

    same = frozenset(map(frozenset, first)) == frozenset(map(frozenset, second))
    assert accepted(written(first), written(second)) == same


@pytest.mark.parametrize("matrix", [[[1, 2], [3, 4]], [[2, 0, 1], [1, 3, -1], [0, 5, 4]]])
def test_what_is_calculated_with_matrices_is_what_sympy_says(matrix: list[list[int]]):
    def written(rows: list[list[object]]) -> str:
        return r"\begin{pmatrix}" + r" \\ ".join(" & ".join(map(str, row)) for row in rows) + r"\end{pmatrix}"

    m, text = sympy.Matrix(matrix), written(matrix)
    for operation, value in (
        (f"{text}^2", m**2),
        (f"{text}^{{-1}}", m.inv()),
        (f"{text}^T", m.T),
        (f"2{text}", 2 * m),
    ):
        assert accepted(operation, written(value.tolist())), operation
        assert not accepted(operation, written((value + sympy.eye(m.rows)).tolist())), operation
    assert accepted(rf"\det {text}", str(m.det()))
    assert accepted(rf"\operatorname{{tr}} {text}", str(m.trace()))
