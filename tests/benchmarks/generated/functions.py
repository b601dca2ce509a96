"""Functions and equations: polynomials, rational functions, lines, circles, systems, derivatives, integrals."""

# Notations are lists of texts: a line for each would be a page for each kind.
# ruff: noqa: E501

from __future__ import annotations

import random
from collections.abc import Hashable
from fractions import Fraction


def polynomial(source: random.Random) -> tuple[int, int, int]:
    return source.randint(1, 6), source.randint(-9, 9), source.randint(-9, 9)


def expanded(tree: tuple[int, int, int]) -> tuple[int, int, int]:
    a, b, c = tree
    return a, a * (b + c), a * b * c


def _signed(n: int, rest: str = "") -> str:
    return f"{'+' if n >= 0 else '-'} {abs(n)}{rest}"


def write_polynomial(tree: tuple[int, int, int]) -> list[str]:
    a, b, c = tree
    p, q, r = expanded(tree)
    return [
        f"{a}(x {_signed(b)})(x {_signed(c)})", f"{p}x^2 {_signed(q, 'x')} {_signed(r)}",
        f"{p}*x**2 {_signed(q, '*x')} {_signed(r)}", f"{r} {_signed(q, 'x')} {_signed(p, 'x^{2}')}",
        rf"f(x) = {p}x^2 {_signed(q, 'x')} {_signed(r)}", rf"{a}\left(x {_signed(c)}\right)\left(x {_signed(b)}\right)",
    ]  # fmt: skip


def change_triple(tree: tuple[int, int, int], source: random.Random) -> tuple[int, int, int]:
    place = source.randrange(3)
    changed = list(tree)
    changed[place] = -changed[place] if source.random() < 0.5 else changed[place] + 1
    return changed[0], changed[1], changed[2]


def write_rational_function(tree: tuple[int, int, int]) -> list[str]:
    a, b, c = tree
    return [
        rf"\frac{{{a}}}{{x {_signed(b)}}} {_signed(c)}", f"{a}/(x {_signed(b)}) {_signed(c)}",
        rf"\frac{{{a} {_signed(c)}(x {_signed(b)})}}{{x {_signed(b)}}}", rf"{c} + {a}(x {_signed(b)})^{{-1}}",
    ]  # fmt: skip


def line_equation(source: random.Random) -> tuple[int, int, int]:
    return source.randint(1, 6), source.choice([1, 2, 3, 4]), source.randint(-9, 9)


def write_equation(tree: tuple[int, int, int]) -> list[str]:
    a, b, c = tree
    return [
        f"{a}x + {b}y = {c}", f"{2 * a}x + {2 * b}y = {2 * c}", f"{b}y = {c} - {a}x", f"{a}x + {b}y - ({c}) = 0",
        rf"y = \frac{{{c} - {a}x}}{{{b}}}", f"-{a}x - {b}y = {-c}",
    ]  # fmt: skip


def line_value(tree: tuple[int, int, int]) -> Hashable:
    a, b, c = tree
    return Fraction(b, a), Fraction(c, a)


def write_circle(tree: tuple[int, int, int]) -> list[str]:
    a, b, r = tree
    return [
        f"(x {_signed(-a)})^2 + (y {_signed(-b)})^2 = {r}", rf"\frac{{(x {_signed(-a)})^2 + (y {_signed(-b)})^2}}{{{r}}} = 1",
        f"x^2 + y^2 {_signed(-2 * a, 'x')} {_signed(-2 * b, 'y')} = {r - a * a - b * b}",
    ]  # fmt: skip


def system(source: random.Random) -> tuple[int, int]:
    return source.randint(-9, 9), source.randint(-9, 9)


def write_system(tree: tuple[int, int]) -> list[str]:
    """Only a reference may be unsolved; the first of the list is it."""
    x, y = tree
    return [
        rf"\begin{{cases}} 2x + y = {2 * x + y} \\ x - 3y = {x - 3 * y} \end{{cases}}",
        f"x = {x}, y = {y}", f"y = {y}; x = {x}", f"({x}, {y})", rf"\begin{{cases}} x = {x} \\ y = {y} \end{{cases}}",
        f"(x, y) = ({x}, {y})",
    ]  # fmt: skip


def power(source: random.Random) -> tuple[int, int]:
    return source.randint(2, 9), source.randint(2, 7)


def write_derivative(tree: tuple[int, int]) -> list[str]:
    """Only a reference may leave it to be calculated; the first of the list is it."""
    a, n = tree
    return [
        rf"\frac{{d}}{{dx}} {a}x^{n}", f"{a * n}x^{{{n - 1}}}", rf"{a} \cdot {n} x^{{{n}-1}}", f"{a * n}*x**{n - 1}",
        rf"\frac{{dy}}{{dx}} = {a * n}x^{{{n - 1}}}", rf"\frac{{{a * n}x^{{{n}}}}}{{x}}",
    ]  # fmt: skip


def write_antiderivative(tree: tuple[int, int]) -> list[str]:
    a, n = tree
    return [
        rf"\int {a * n}x^{{{n - 1}}}\,dx", f"{a}x^{n} + C", f"{a}x^{{{n}}} + c", f"C + {a}x^{{{n}}}", f"{a}*x**{n} + K",
        rf"\frac{{{2 * a}x^{{{n}}}}}{{2}} + C", f"{a}x^{n} + 1 + C",
    ]  # fmt: skip


def change_power(tree: tuple[int, int], source: random.Random) -> tuple[int, int]:
    a, n = tree
    return source.choice([(a + 1, n), (-a, n), (a, n + 1), (2 * a, n)])


def write_general_solution(tree: tuple[int, int]) -> list[str]:
    a, n = tree
    return [
        f"y = Ce^{{{a}x}} + {n}", f"y = Ae^{{{a}x}} + {n}", f"{n} + Ce^{{{a}x}}", f"y = {n} + ke^{{{a}x}}",
        rf"y = C \cdot \exp({a}x) + {n}",
    ]  # fmt: skip


_WHOLE = {
    "factorial": ["{n}!", r"{n} \cdot ({n}-1)!"],
    "binomial": [r"\binom{{2{n}}}{{{n}}}", r"\frac{{(2{n})!}}{{({n}!)^2}}"],
    "sign": ["(-1)^n {n}", "{n} (-1)^{{n+2}}"],
    "power": ["2^{{{n}}} + (-1)^n", r"(-1)^n + 2 \cdot 2^{{{n}-1}}"],
}


def whole(source: random.Random) -> tuple[str, int]:
    """A formula in whole numbers, and up to which n it holds; 0: it always does."""
    return source.choice(list(_WHOLE)), 0


def write_whole(tree: tuple[str, int]) -> list[str]:
    name, last = tree
    n = rf"\min(n, {last})" if last else "n"
    return [form.format(n=n) for form in _WHOLE[name]]


def change_whole(tree: tuple[str, int], source: random.Random) -> tuple[str, int]:
    name, _ = tree
    return source.choice(
        [(name, source.randint(3, 700)), (source.choice([other for other in _WHOLE if other != name]), 0)]
    )
