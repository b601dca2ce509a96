"""Exact values of integers, decimals, fractions, powers and factorials, as rational numbers."""

import operator
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


def _folded(parts: tuple[Node, ...], join: Callable[[Fraction, Fraction], Fraction]) -> Fraction | None:
    total = exact(parts[0])
    for part in parts[1:]:
        value = None if total is None else exact(part)
        if total is None or value is None:
            return None
        total = _bounded(join(total, value))
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
    return None if base is None or exponent is None else power(base, exponent)


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


def _of_values(rule: Callable[..., Fraction | None] | None, nodes: tuple[Node, ...]) -> Fraction | None:
    """What a rule gives for the values of some nodes; None without a rule, and where one of them is not rational."""
    if rule is None:
        return None
    values = []
    for node in nodes:
        value = exact(node)
        if value is None:
            return None
        values.append(value)
    return rule(*values)


_RULES: dict[type, Callable[..., Fraction | None]] = {
    Number: lambda node: node.value,
    Negative: lambda node: _of_values(operator.neg, (node.operand,)),
    Sum: lambda node: _folded(node.terms, operator.add),
    Product: lambda node: _folded(node.factors, operator.mul),
    Quotient: _quotient,
    Power: _power,
    BasedNumber: lambda node: node.value,
    Quantity: lambda node: _of_values(lambda value: value / 100, (node.value,)) if node.unit == "percent" else None,
    Call: lambda node: _of_values(known(node.function).exact, node.arguments),
}
