"""Numbers: integers, fractions, percentages, surds, complex numbers, numerals of other bases."""

from __future__ import annotations

import random
from fractions import Fraction

from generated.kind import latex


def integer(source: random.Random) -> int:
    return source.choice([source.randint(2, 20), source.randint(21, 999), source.randint(1000, 10**7)])


def write_integer(n: int) -> list[str]:
    texts = [str(n), f"{n}.0", f"{n + 3} - 3", rf"\frac{{{2 * n}}}{{2}}", f"x = {n}", rf"\text{{{n}}}", f"+{n}"]
    return [*texts, f"{n:,}", f"{n:,}".replace(",", "{,}"), f"{n:,}".replace(",", r"\,")]


def fraction(source: random.Random) -> Fraction:
    return Fraction(source.randint(-60, 60) or 7, source.randint(2, 30))


def write_fraction(value: Fraction) -> list[str]:
    above, below = value.numerator, value.denominator
    texts = [
        latex(value),
        f"{above}/{below}",
        rf"\frac{{{3 * above}}}{{{3 * below}}}",
        rf"\left({latex(value)}\right)",
    ]
    if 10**9 % below == 0:
        texts += [str(float(value)), rf"{float(100 * value)}\%"]
    if value > 1 and below > 1:
        whole, rest = divmod(value, 1)
        texts += [rf"{whole}{latex(rest)}", f"{whole} {rest}"]
    return texts


def percentage(source: random.Random) -> Fraction:
    return Fraction(source.randint(1, 1999), source.choice([1, 2, 10]))


def write_percentage(value: Fraction) -> list[str]:
    """``value`` is the number before the sign."""
    number = float(value)
    texts = [rf"{number:g}\%", f"{number:g}%", rf"{number:g} \text{{ percent}}", f"{number:g} percent"]
    return [*texts, latex(value / 100)]


def surd(source: random.Random) -> tuple[int, int, int]:
    return source.randint(-9, 9), source.randint(2, 9), source.choice([2, 3, 5, 6, 7, 10, 11, 13])


def write_surd(tree: tuple[int, int, int]) -> list[str]:
    a, b, r = tree
    return [
        rf"{a} + {b}\sqrt{{{r}}}",
        rf"{a} + \sqrt{{{b * b * r}}}",
        f"{a} + {b}*sqrt({r})",
        f"{a} + {b}√{r}",
        rf"{a} + {b} \cdot {r}^{{1/2}}",
        rf"{a} + \frac{{{b * r}}}{{\sqrt{{{r}}}}}",
        rf"{b}\sqrt{{{r}}} + ({a})",
    ]


def change_surd(tree: tuple[int, int, int], source: random.Random) -> tuple[int, int, int]:
    a, b, r = tree
    return source.choice([(a + 1, b, r), (a - 3, b, r), (a, b + 1, r), (a, b, r + 7), (-a - 1, b, r)])


def complex_number(source: random.Random) -> tuple[int, int]:
    return source.randint(-9, 9), source.choice([-7, -4, -3, -2, 2, 3, 5, 8])


def write_complex(tree: tuple[int, int]) -> list[str]:
    a, b = tree
    sign, size = "+" if b > 0 else "-", abs(b)
    return [f"{a} {sign} {size}i", f"{b}i + ({a})", f"{a} {sign} i*{size}", rf"{a} {sign} {size}\sqrt{{-1}}"]


def based(source: random.Random) -> tuple[int, int]:
    return source.randint(20, 500), source.randint(2, 9)


def write_based(tree: tuple[int, int]) -> list[str]:
    n, base = tree
    digits = ""
    while n:
        n, digit = divmod(n, base)
        digits = f"{digit}{digits}"
    return [f"{digits}_{base}", f"{digits}_{{{base}}}", rf"{digits}_{{\text{{{base}}}}}"]
