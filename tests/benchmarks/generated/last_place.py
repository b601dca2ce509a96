r"""Decimals near a real number, and whether they are one by the theorem of the last place, by interval arithmetic.

The only generous rule of the grader (``rules/rounding.py``) says: a decimal answer of ten significant digits or more
is an exact reference that it differs from by less than one unit of its last place; an exact answer is a decimal
reference of three digits or more that it rounds to. A value that is a decimal itself is rounded only to fewer places:
by three or more for a reference, never for an answer. The unit is that of the value: an exponent, a factor 10^k or a
percent sign moves it with the value. Here the unit is known by construction, the distance is enclosed by intervals of
sixty digits, and the decimal is written with its point anywhere.
"""

from __future__ import annotations

import random
from fractions import Fraction

from mpmath import iv

from generated.kind import Pair

LEAST_OF_AN_ANSWER = 10
LEAST_OF_A_REFERENCE = 3


def drawn(source: random.Random) -> Pair:
    iv.dps = 60
    text, value, rational = _constant(source)
    power = source.choice([0, 0, 0, source.randint(-40, 40)])
    if power:
        text, value = rf"{text}\cdot 10^{{{power}}}", value * iv.mpf(10) ** power
    is_reference = source.random() < 0.3
    digits = source.choice([3, 4, 5, 6] if is_reference else [4, 8, 9, 10, 10, 11, 12, 15, 18, 25])
    exponent = _exponent(value)  # value = 0.d1d2... 10^exponent
    scaled = value * iv.mpf(10) ** (digits - exponent)
    off = source.choice([0, 0, 0, 1, -1, 2, -2, source.randint(3, 10**digits // 2)])
    mantissa = int(scaled.mid + source.choice([0, 0.5, 0.5, 0.5])) + off
    distance = abs(scaled - mantissa)
    near = distance <= iv.mpf(1) / 2 if is_reference else distance < 1
    if len(str(mantissa)) != digits or near is None:  # None: the intervals do not tell.
        return drawn(source)
    if rational is not None:
        units = rational * Fraction(10) ** (power + digits - exponent)
        is_decimal = (units * (100 if is_reference else 1)).denominator == 1
        near = units == mantissa or (near and not is_decimal)
    same = bool(near) and digits >= (LEAST_OF_A_REFERENCE if is_reference else LEAST_OF_AN_ANSWER)
    if rational is not None and units == mantissa:
        same = True
    decimal = _written(mantissa, exponent, digits, source)
    sign = source.choice(["", "", "-"])
    reference, answer = (decimal, text) if is_reference else (text, decimal)
    return Pair("last place", sign + reference, rf"\boxed{{{sign}{answer}}}", same)


def _constant(source: random.Random) -> tuple[str, iv.mpf, Fraction | None]:
    """A number as text, in an interval, and exactly if it is rational."""
    n = source.choice([2, 3, 5, 7, 11, 13, 17, 19, 23])
    below = source.choice([3, 7, 8, 13, 16, 24])
    if source.random() < 0.3:
        value = Fraction(n, below) + source.randint(1, 3)
        return (
            rf"\frac{{{value.numerator}}}{{{value.denominator}}}",
            iv.mpf(value.numerator) / value.denominator,
            value,
        )
    text, known = source.choice([
        (rf"\sqrt{{{n}}}", iv.sqrt(iv.mpf(n))), (r"\pi", iv.pi), (rf"\ln {n}", iv.log(iv.mpf(n))),
        (r"\pi^2", iv.pi**2),
        (rf"\frac{{\pi}}{{{below}}}", iv.pi / below), (rf"e^{{{n}}}", iv.exp(iv.mpf(n))),
    ])  # fmt: skip
    return text, known, None


def _exponent(value: iv.mpf) -> int:
    exponent = 0
    while value.a >= 1:
        value, exponent = value / 10, exponent + 1
    while value.b < 0.1:
        value, exponent = value * 10, exponent - 1
    return exponent


def _written(mantissa: int, exponent: int, digits: int, source: random.Random) -> str:
    """The decimal 0.mantissa 10^exponent, with its point before any digit but the first places."""
    text = str(mantissa)
    before = source.choice([1, 1, 1, source.randint(1, digits - 1), -source.randint(0, 6)])
    if exponent in range(-4, digits) and source.random() < 0.4:
        before = exponent
    number = f"{text[:before]}.{text[before:]}" if before > 0 else f"0.{'0' * -before}{text}"
    rest = exponent - before
    if rest == 0:
        return number
    return source.choice([f"{number}e{rest}", rf"{number}\times 10^{{{rest}}}", rf"{number} \cdot 10^{{{rest}}}"])
