"""Whatever a rule accepts has the same value or the same solutions by an independent calculation, and the reverse.

``test_differential.py`` has families, congruences, sets of sets and 40 more kinds.
"""

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
