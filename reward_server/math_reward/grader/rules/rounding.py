"""Compares numbers up to rounding or a tolerance, if the options and the form of both allow it."""

from __future__ import annotations

from fractions import Fraction

from math_reward.grader.mathematics import numeric
from math_reward.grader.mathematics.evaluation import real_value
from math_reward.grader.notation.exact import exact
from math_reward.grader.notation.syntax import Constant, Negative, Node, Number, Power, Product, Quantity
from math_reward.grader.rules.comparison import Comparison
from math_reward.grader.rules.trees import is_integer, split

ROUNDED_DIGITS = 3
"""A decimal reference with fewer significant digits counts as exact."""

FULL_DIGITS = 10
"""A decimal with this many significant digits, all of which agree, is a float printed in full, and not a guess."""

_NOISE = Fraction(1, 10**9)
"""More than the relative error of a value in floating point."""


def close(
    comparison: Comparison, reference: Node, answer: Node, left: Fraction | None, right: Fraction | None
) -> bool:
    """Whether two numbers are equal up to rounding or ``rel_tol``, if the options and the form of both allow it."""
    options = comparison.options
    step = rounding(reference)
    exact_answer = rounding(answer) is None and not (step and _short(right, step))
    if step and exact_answer and within(comparison, reference, answer, step / 2):
        return True
    # e and pi are asked for by name, and nobody prints them: 2.718281828 is a guess.
    step = rounding(answer, least=FULL_DIGITS + 5 * isinstance(reference, Constant))
    if step and rounding(reference) is None and not _ends(left, step) and within(comparison, reference, answer, step):
        return True
    step = rounding(answer) if options.allow_rounded else None
    if step and within(comparison, reference, answer, step / 2):
        return True
    if options.rel_tol > 0:
        value = left if left is not None else real_value(reference)
        if value is not None:
            return within(comparison, reference, answer, abs(Fraction(value)) * Fraction(options.rel_tol))
    return False


def _ends(value: Fraction | None, step: Fraction) -> bool:
    """Whether a value needs no rounding to a decimal with this step: half is 0.5000000000, and no 0.5000000001."""
    return value is not None and (is_integer(value) or (value / step).denominator == 1)


def _short(value: Fraction | None, step: Fraction) -> bool:
    """Whether a value is a decimal with at most two more places: nobody rounds 12.21 to 12.2, even if it is written
    1221/100 or 1221 %.
    """
    return value is not None and (value / (step / 100)).denominator == 1


def within(comparison: Comparison, left: Node, right: Node, distance: Fraction) -> bool:
    """Whether two real numbers are at most ``distance`` apart: as rational numbers, or to a hundred digits.

    Floating point only finds out, quickly, that they are not.
    """
    a, b = exact(left), exact(right)
    if a is not None and b is not None:
        return abs(a - b) <= distance
    x, y = real_value(left), real_value(right)
    if x is None or y is None or abs(x - y) > distance + _NOISE * Fraction(max(abs(x), abs(y))):
        return False
    return numeric.are_near(left, right, distance)


def rounds_to(comparison: Comparison, value: Node, rounded: Node) -> bool:
    if comparison.same_value(value, rounded):
        return True
    (value, unit), (without_unit, other) = split(value), split(rounded)
    rounded = rounded if other == "percent" != unit else without_unit  # 1/6 is 16.7 %.
    step = rounding(rounded, least=1)
    known = exact(value)
    if step is None and other == "percent" != unit and is_integer(exact(without_unit)):
        step = Fraction(1, 100) if _is_cut_off(value, rounded) else Fraction(1, 200)  # 1/3 is 33 %, and not 34 %.
        return within(comparison, value, rounded, step)
    if step is None:
        if is_integer(known) or not is_integer(exact(rounded)):
            return False
        step = Fraction(1)
    return within(comparison, value, rounded, step if known is None or not is_integer(known) else step / 2)


def _is_cut_off(value: Node, rounded: Node) -> bool:
    """Whether a rounded number is nearer to zero than the value."""
    whole, part = real_value(value), real_value(rounded)
    return whole is not None and part is not None and abs(part) < abs(whole)


def rounding(node: Node, least: int = ROUNDED_DIGITS) -> Fraction | None:
    """The value of one unit in the last place of a decimal; None for others, and with less than ``least`` digits.

    With d significant digits the unit is at most 10^(1 - d) of the value: the first of them is not 0, so the value has
    at least 10^(d - 1) units; an exponent, a factor 10^k and a percent sign scale the value and its unit alike, and a
    minus changes neither. So what agrees to one unit with a decimal of ten digits agrees in nine of the value's own.
    """
    if isinstance(node, Number):
        if node.places is None or node.significant < least:
            return None
        return Fraction(10) ** -node.places
    if isinstance(node, Negative):
        return rounding(node.operand, least)
    if isinstance(node, Quantity):
        step = rounding(node.value, least)
        return step / 100 if step and node.unit == "percent" else step
    if isinstance(node, Product) and len(node.factors) == 2:
        step, factor = rounding(node.factors[0], least), node.factors[1]
        if step and isinstance(factor, Power) and exact(factor.base) == 10:
            scale = exact(factor)
            return None if scale is None else step * scale
    return None
