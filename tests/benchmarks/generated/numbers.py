"""Numbers: integers, fractions, surds, complex numbers, numerals of other bases."""

from __future__ import annotations

import random
from fractions import Fraction


def latex(value: Fraction) -> str:
    if value.denominator == 1:
        return str(value.numerator)
    sign = "-" if value < 0 else ""
    return rf"{sign}\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"


def integer(source: random.Random) -> int:
    return source.choice([source.randint(2, 20), source.randint(21, 999), source.randint(1000, 10**7)])


def write_integer(n: int) -> list[str]:
    texts = [str(n), f"{n}.0", f"{n + 3} - 3", rf"\frac{{{2 * n}}}{{2}}", f"x = {n}", rf"\text{{{n}}}"]
    return [*texts, f"{n:,}", f"{n:,}".replace(",", "{,}"), f"{n:,}".replace(",", r"\,")]


def fraction(source: random.Random) -> Fraction:
    return Fraction(source.randint(-60, 60) or 7, source.randint(2, 30))


def write_fraction(value: Fraction) -> list[str]:
    above, below = value.numerator, value.denominator
    texts = [latex(value), f"{above}/{below}", rf"\frac{{{3 * above}}}{{{3 * below}}}", rf"({latex(value)})"]
    if 10**9 % below == 0:
        texts += [str(float(value)), rf"{float(100 * value)}\%"]
    if value > 1 and below > 1:
        texts += [rf"{value // 1}{latex(value % 1)}", f"{value // 1} {value % 1}"]
    return texts


def surd(source: random.Random) -> tuple[int, int, int]:
    return source.randint(-9, 9), source.randint(2, 9), source.choice([2, 3, 5, 6, 7, 10, 11, 13])


def write_surd(tree: tuple[int, int, int]) -> list[str]:
    a, b, r = tree
    root = rf"\sqrt{{{r}}}"
    texts = [rf"{a} + {b}{root}", rf"{b}{root} + ({a})", rf"{a} + \sqrt{{{b * b * r}}}", f"{a} + {b}*sqrt({r})"]
    return [*texts, f"{a} + {b}√{r}", rf"{a} + {b} \cdot {r}^{{1/2}}", rf"{a} + \frac{{{b * r}}}{{{root}}}"]


def complex_number(source: random.Random) -> tuple[int, int]:
    return source.randint(-9, 9), source.choice([-7, -4, -3, 2, 3, 5, 8])


def write_complex(tree: tuple[int, ...]) -> list[str]:
    a, b = tree if len(tree) == 2 else (*tree, 0)
    return [f"{a} + ({b})i", f"{b}i + ({a})", f"{a} + i*({b})", rf"{a} + ({b})\sqrt{{-1}}", f"z = {a} - ({-b})i"]


def based(source: random.Random) -> tuple[int, int]:
    return source.randint(20, 500), source.randint(2, 9)


def write_based(tree: tuple[int, int]) -> list[str]:
    n, base = tree
    digits = ""
    while n:
        n, digit = divmod(n, base)
        digits = f"{digit}{digits}"
    return [f"{digits}_{base}", f"{digits}_{{{base}}}", rf"{digits}_{{\text{{{base}}}}}"]
