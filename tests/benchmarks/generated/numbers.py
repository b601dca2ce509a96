"""Numbers: integers, fractions, percentages, surds, logarithms, angles, complex numbers, bases, words, choices, sums."""

# Notations are lists of texts: a line for each would be a page for each kind.
# ruff: noqa: E501

from __future__ import annotations

import math
import random
from fractions import Fraction

from generated.kind import decimal, latex


def integer(source: random.Random) -> int:
    return source.choice([source.randint(2, 20), source.randint(21, 999), source.randint(1000, 10**7)])


def write_integer(n: int) -> list[str]:
    texts = [str(n), f"{n}.0", f"{n + 3} - 3", rf"\frac{{{2 * n}}}{{2}}", f"x = {n}", rf"\text{{{n}}}", f"+{n}"]
    if n >= 1000:
        texts += [f"{n:,}", f"{n:,}".replace(",", "{,}"), f"{n:,}".replace(",", r"\,"), f"{n:,}".replace(",", r",\!")]
    return texts


def fraction(source: random.Random) -> Fraction:
    return Fraction(source.randint(-60, 60) or 7, source.randint(2, 30))


def write_fraction(value: Fraction) -> list[str]:
    above, below = value.numerator, value.denominator
    texts = [
        latex(value),
        latex(value).replace("frac", "dfrac"),
        f"{above}/{below}",
        rf"\frac{{{3 * above}}}{{{3 * below}}}",
    ]
    texts.append(rf"\left({latex(value)}\right)")
    if below > 1:
        texts.append(rf"{above} \div {below}")
    exact = decimal(value)
    if exact is not None:
        texts += [exact, rf"{decimal(value * 100) or exact}\%" if decimal(value * 100) else exact]
    if value > 1 and below > 1:
        whole, rest = divmod(value, 1)
        texts += [
            rf"{whole}\frac{{{rest.numerator}}}{{{rest.denominator}}}",
            f"{whole} {rest.numerator}/{rest.denominator}",
        ]
    return texts


def percentage(source: random.Random) -> Fraction:
    return Fraction(source.randint(1, 1999), source.choice([1, 2, 10]))


def write_percentage(value: Fraction) -> list[str]:
    """``value`` is the number before the sign."""
    number = decimal(value)
    texts = [rf"{number}\%", f"{number}%", rf"{number} \text{{ percent}}", f"{number} percent"]
    return [*texts, latex(value / 100), decimal(value / 100) or latex(value / 100)]


def change_percentage(value: Fraction, source: random.Random) -> Fraction:
    return source.choice([value + 1, value * 10, value / 10, value - Fraction(7, 2)])


def surd(source: random.Random) -> tuple[Fraction, int, int]:
    return Fraction(source.randint(-9, 9)), source.randint(2, 9), source.choice([2, 3, 5, 6, 7, 10, 11, 13])


def write_surd(tree: tuple[Fraction, int, int]) -> list[str]:
    a, b, r = tree
    head = "" if a == 0 else f"{latex(a)} + "
    return [
        rf"{head}{b}\sqrt{{{r}}}", rf"{head}\sqrt{{{b * b * r}}}", f"{head}{b}*sqrt({r})", f"{head}{b}√{r}",
        rf"{head}{b} \cdot {r}^{{1/2}}", rf"{head}\frac{{{b * r}}}{{\sqrt{{{r}}}}}", rf"{b}\sqrt{{{r}}} + ({latex(a)})",
    ]  # fmt: skip


def change_surd(tree: tuple[Fraction, int, int], source: random.Random) -> tuple[Fraction, int, int]:
    a, b, r = tree
    return source.choice([(a + 1, b, r), (a - 3, b, r), (a, b + 1, r), (a, b, r + 7), (-a - 1, b, r)])


def logarithm(source: random.Random) -> tuple[int, int]:
    return source.randint(2, 7), source.choice([2, 3, 5, 7])


def write_logarithm(tree: tuple[int, int]) -> list[str]:
    k, n = tree
    return [rf"{k}\ln {n}", rf"\ln({n**k})", f"{k}*log({n})", rf"\ln {n}^{{{k}}}", rf"-\ln\frac{{1}}{{{n**k}}}"]


def angle(source: random.Random) -> Fraction:
    return Fraction(source.randint(1, 11), source.choice([2, 3, 4, 5, 6, 12]))


def write_angle(value: Fraction) -> list[str]:
    above, below = value.numerator, value.denominator
    texts = [rf"{latex(value)}\pi", rf"\frac{{{above}\pi}}{{{below}}}", f"{above}*pi/{below}", f"{above}π/{below}"]
    degrees = value * 180
    return [*texts, rf"{degrees}^\circ", f"{degrees}°"] if degrees.denominator == 1 else texts


def complex_number(source: random.Random) -> tuple[int, int]:
    return source.randint(-9, 9), source.choice([-7, -4, -3, -2, 2, 3, 5, 8])


def write_complex(tree: tuple[int, int]) -> list[str]:
    a, b = tree
    sign = "+" if b > 0 else "-"
    return [
        f"{a} {sign} {abs(b)}i", f"{b}i + {a}" if a >= 0 else f"{b}i - {abs(a)}", f"{a} {sign} i*{abs(b)}",
        rf"{a} {sign} {abs(b)}\sqrt{{-1}}", f"z = {a} {sign} {abs(b)}i",
    ]  # fmt: skip


def based(source: random.Random) -> tuple[int, int]:
    return source.randint(20, 500), source.randint(2, 9)


def in_base(n: int, base: int) -> str:
    digits = ""
    while n:
        n, digit = divmod(n, base)
        digits = f"{digit}{digits}"
    return digits


def write_based(tree: tuple[int, int]) -> list[str]:
    n, base = tree
    return [f"{in_base(n, base)}_{base}", f"{in_base(n, base)}_{{{base}}}", rf"{in_base(n, base)}_{{\text{{{base}}}}}"]


SPELLED = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]


def write_spelled(n: int) -> list[str]:
    return [str(n), SPELLED[n], rf"\text{{{SPELLED[n]}}}", SPELLED[n].capitalize()]


def write_millions(n: int) -> list[str]:
    return [f"{n} million", rf"{n} \text{{ million}}", f"{n},000,000", rf"{n} \times 10^6", f"{n}000000"]


def write_chinese(n: int) -> list[str]:
    """``n`` thousands, 10 or more of them."""
    tens, thousands = divmod(n, 10)
    texts = [f"{n}000", f"{n}千", f"{n},000", f"{decimal(Fraction(n, 10))}万"]
    return [*texts, f"{tens}万{thousands}千", f"{tens}万{thousands}000"] if thousands else texts


def choices(source: random.Random) -> tuple[int, int]:
    n = source.randint(4, 12)
    return n, source.randint(2, n // 2)


def write_choices(tree: tuple[int, int]) -> list[str]:
    n, k = tree
    return [
        rf"\binom{{{n}}}{{{k}}}", f"C_{{{n}}}^{{{k}}}", f"C({n}, {k})", rf"{{}}^{{{n}}}C_{{{k}}}", str(math.comb(n, k)),
        rf"\frac{{{n}!}}{{{k}!{n - k}!}}", rf"{{{n} \choose {k}}}",
    ]  # fmt: skip


def write_sum(n: int) -> list[str]:
    # Only a reference may leave it to be calculated; the first of the list is it.
    return [rf"\sum_{{k=1}}^{{{n}}} k", str(n * (n + 1) // 2), rf"\frac{{{n}({n}+1)}}{{2}}"]


def phasor(source: random.Random) -> tuple[int, int]:
    return source.randint(2, 60), source.choice([0, 90, 180, 270])


def write_phasor(tree: tuple[int, int]) -> list[str]:
    size, degrees = tree
    plain = {0: f"{size}", 90: f"{size}i", 180: f"-{size}", 270: f"-{size}i"}[degrees]
    turns = {0: "0", 90: r"\frac{\pi}{2}", 180: r"\pi", 270: r"\frac{3\pi}{2}"}[degrees]
    return [
        rf"{size}\angle {degrees}^\circ", rf"{size}\angle {degrees - 360}°", rf"{size}\angle {turns}", plain,
        rf"{size}e^{{{turns} i}}", rf"{size}(\cos {turns} + i\sin {turns})",
    ]  # fmt: skip


def change_phasor(tree: tuple[int, int], source: random.Random) -> tuple[int, int]:
    size, degrees = tree
    return source.choice([(size + 1, degrees), (size, (degrees + 90) % 360), (size, (degrees + 180) % 360)])
