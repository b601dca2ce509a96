"""Exact values of integers, decimals, fractions, powers and factorials, as rational numbers."""

from collections.abc import Callable
from fractions import Fraction

from math_reward.grader.errors import TooComplex, Undefined
from math_reward.grader.notation.syntax import (
    BasedNumber,
    Call,
    Negative,
    Node,
    Number,
    Power,
    Product,
    Quantity,
    Quotient,
    Sum,
)
from math_reward.grader.words.functions import exact_root, known

MAX_BITS = 25_000
"""The largest size of a numerator or denominator; 2006! has 19,200 bits."""


def exact(node: Node) -> Fraction | None:
    """The rational value of ``node``; None if it has a variable, is irrational, or needs more than arithmetic.

    Raises:
        Undefined: it has no value.
        TooComplex: a number in it is beyond ``MAX_BITS``.
    """
    rule = _RULES.get(type(node))
    return None if rule is None else rule(node)


def _bounded(value: Fraction) -> Fraction:
    if value.numerator.bit_length() > MAX_BITS or value.denominator.bit_length() > MAX_BITS:
        raise TooComplex(f"a number in it has more than {MAX_BITS:,} bits")
    return value


def _negative(node: Negative) -> Fraction | None:
    value = exact(node.operand)
    return None if value is None else -value


def _sum(node: Sum) -> Fraction | None:
    total = Fraction(0)
    for term in node.terms:
        value = exact(term)
        if value is None:
            return None
        total = _bounded(total + value)
    return total


def _product(node: Product) -> Fraction | None:
    total = Fraction(1)
    for factor in node.factors:
        value = exact(factor)
        if value is None:
            return None
        total = _bounded(total * value)
    return total


def _quotient(node: Quotient) -> Fraction | None:
    numerator, denominator = exact(node.numerator), exact(node.denominator)
    if denominator == 0:
        raise Undefined("a division by zero")
    if numerator is None or denominator is None:
        return None
    return _bounded(numerator / denominator)


def _power(node: Power) -> Fraction | None:
    base, exponent = exact(node.base), exact(node.exponent)
    if base is None or exponent is None:
        return None
    return power(base, exponent)


def power(base: Fraction, exponent: Fraction) -> Fraction | None:
    """``base ** exponent`` if that is rational and not too large, else None."""
    if base == 0:
        if exponent <= 0:
            raise Undefined("zero to a power that is not positive")
        return Fraction(0)
    if abs(base) == 1 and exponent.denominator == 1:
        return base if exponent.numerator % 2 else Fraction(1)
    if exponent.denominator != 1:
        if base < 0 or exponent.denominator > 64:
            return None
        root = exact_root(base, exponent.denominator)
        return None if root is None else power(root, Fraction(exponent.numerator))
    size = max(base.numerator.bit_length(), base.denominator.bit_length())
    if abs(exponent) * (size - 1) > MAX_BITS:
        raise TooComplex(f"a power in it has more than {MAX_BITS:,} bits")
    return base**exponent.numerator


def _based(node: BasedNumber) -> Fraction:
    return Fraction(int(node.digits, node.base))


def _quantity(node: Quantity) -> Fraction | None:
    if node.unit != "percent":
        return None
    value = exact(node.value)
    return None if value is None else value / 100


def _call(node: Call) -> Fraction | None:
    rule = known(node.function).exact
    if rule is None:
        return None
    values = []
    for argument in node.arguments:
        value = exact(argument)
        if value is None:
            return None
        values.append(value)
    return rule(*values)


_RULES: dict[type, Callable[..., Fraction | None]] = {
    Number: lambda node: node.value,
    Negative: _negative,
    Sum: _sum,
    Product: _product,
    Quotient: _quotient,
    Power: _power,
    BasedNumber: _based,
    Quantity: _quantity,
    Call: _call,
}
