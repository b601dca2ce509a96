"""Whatever a rule accepts has the same value or the same solutions by an independent calculation, and the reverse.

``test_differential.py`` has numbers, expressions, sets and families.
"""

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


offset, step = st.integers(-9, 9), st.integers(1, 6)


@settings(bounded, max_examples=80)
@given(step, offset, step, offset, st.sampled_from(["", r", n \in \mathbb{N}^*", r" (n \in \mathbb{N}^*)"]))
def test_a_sequence_is_the_same_term_by_term(a: int, b: int, c: int, d: int, declared: str):
    paid = accepted(f"a_n = {a}n + {b}{declared}", rf"a_n = {c}n + {d}, n \in \mathbb{{N}}^*")

    assert paid == ((a, b) == (c, d))


# ── a float printed in full, however it is written ──

CONSTANTS = {
    r"\frac{1}{3}": "0.333333333333333333333333333333",
    r"\sqrt{2}": "1.41421356237309504880168872421",
    r"2\pi": "6.28318530717958647692528676656",
    r"\log_2 3": "1.58496250072115618145373894395",
    r"x=\frac{3}{7}": "0.428571428571428571428571428571",
    r"100\sqrt{3}": "173.205080756887729352744634151",
}
"""References, and their values to thirty digits."""


def spelled(digits: str, point: int, exponent: int, power: int | None, form: str) -> tuple[str, Fraction]:
    """A decimal with these digits, its point after some of them, an exponent and a power of ten; and its value."""
    text = f"{digits[:point]}.{digits[point:]}" + (f"e{exponent}" if exponent else "")
    value = Fraction(text)
    if power is None:
        return text, value
    return text + form.format(power), value * Fraction(10) ** power


forms = st.sampled_from([r" \times 10^{{{}}}", r"\cdot10^{{{}}}", r" \cdot 10^{{{}}}"])
exponents = st.integers(-30, 30)


@given(
    st.sampled_from(sorted(CONSTANTS)),
    st.text("0123456789", min_size=10, max_size=13) | st.sampled_from(["1000000000", "10000000000", "5000000000"]),
    st.integers(1, 9),
    exponents,
    st.none() | exponents,
    forms,
)
@bounded
def test_no_decimal_is_paid_that_is_not_the_constants_own_in_nine_digits(
    reference: str, digits: str, point: int, exponent: int, power: int | None, form: str
) -> None:
    answer, value = spelled(digits, point, exponent, power, form)
    right = Fraction(CONSTANTS[reference])
    assert not grade(rf"\boxed{{{answer}}}", reference).correct or abs(value - right) < right / 10**9


@given(st.sampled_from(sorted(CONSTANTS)), st.integers(1, 9), st.none() | exponents, exponents, forms)
@bounded
def test_a_constants_own_digits_are_paid_wherever_their_point_stands(
    reference: str, point: int, power: int | None, exponent: int, form: str
) -> None:
    digits = CONSTANTS[reference].replace(".", "").lstrip("0")[:12]
    size = len(str(int(float(CONSTANTS[reference])))) if float(CONSTANTS[reference]) >= 1 else 0
    rest = size - point  # the power of ten that the point leaves to the exponent and to the factor
    answer, _ = spelled(
        digits, point, rest if power is None else exponent, None if power is None else rest - exponent, form
    )
    assert grade(rf"\boxed{{{answer}}}", reference).correct, answer


@given(st.integers(100, 999), st.integers(-8, 8), st.integers(1, 2000), st.integers(-2, 2))
@bounded
def test_a_fraction_is_paid_for_a_reference_in_e_notation_only_if_that_is_its_rounding(
    digits: int, exponent: int, below: int, off: int
) -> None:
    reference = f"{digits / 100:.2f}e{exponent}"
    fraction = Fraction(round(Fraction(reference) * below) + off, below)
    if grade(rf"\boxed{{\frac{{{fraction.numerator}}}{{{fraction.denominator}}}}}", reference).correct:
        assert abs(fraction - Fraction(reference)) <= Fraction(10) ** (exponent - 2) / 2
