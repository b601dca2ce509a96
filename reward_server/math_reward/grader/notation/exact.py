"""Exact values of integers, decimals, fractions, powers and factorials, as rational numbers."""

import math
from collections.abc import Callable
from fractions import Fraction

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
from math_reward.grader.notation.tokens import TooComplex

MAX_BITS = 25_000
"""The largest size of a numerator or denominator; 2006! has 19,200 bits."""
MAX_FACTORIAL = 2_500


class Undefined(ArithmeticError):
    """The value does not exist: a division by zero, 0^0, the logarithm of zero, the factorial of -1."""


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
        root = _root(base, exponent.denominator)
        return None if root is None else power(root, Fraction(exponent.numerator))
    size = max(base.numerator.bit_length(), base.denominator.bit_length())
    if abs(exponent) * (size - 1) > MAX_BITS:
        raise TooComplex(f"a power in it has more than {MAX_BITS:,} bits")
    return base**exponent.numerator


def _root(value: Fraction, index: int) -> Fraction | None:
    numerator, denominator = _integer_root(value.numerator, index), _integer_root(value.denominator, index)
    return None if numerator is None or denominator is None else Fraction(numerator, denominator)


def _integer_root(value: int, index: int) -> int | None:
    if value < 0:
        inner = _integer_root(-value, index) if index % 2 else None
        return None if inner is None else -inner
    if index == 2:
        root = math.isqrt(value)
    else:
        if value.bit_length() > 1000:
            return None
        root = round(value ** (1 / index)) if value else 0
    return root if root**index == value else None


def _based(node: BasedNumber) -> Fraction:
    return Fraction(int(node.digits, node.base))


def _quantity(node: Quantity) -> Fraction | None:
    if node.unit != "percent":
        return None
    value = exact(node.value)
    return None if value is None else value / 100


def _call(node: Call) -> Fraction | None:
    rule = _FUNCTIONS.get(node.function)
    if rule is None:
        return None
    values = []
    for argument in node.arguments:
        value = exact(argument)
        if value is None:
            return None
        values.append(value)
    return rule(*values)


def _natural(value: Fraction, limit: int = MAX_FACTORIAL) -> int | None:
    if value.denominator != 1:
        return None
    if value < 0:
        raise Undefined("the factorial of a negative number")
    if value > limit:
        raise TooComplex(f"a factorial in it is of a number above {limit:,}")
    return value.numerator


def _factorial(value: Fraction) -> Fraction | None:
    n = _natural(value)
    return None if n is None else Fraction(math.factorial(n))


def _double_factorial(value: Fraction) -> Fraction | None:
    n = _natural(value)
    return None if n is None else Fraction(math.prod(range(n, 0, -2)))


def _binomial(n: Fraction, k: Fraction) -> Fraction | None:
    top, bottom = _natural(n), _natural(k)
    return None if top is None or bottom is None else Fraction(math.comb(top, bottom))


def _sqrt(value: Fraction) -> Fraction | None:
    return _root(value, 2) if value >= 0 else None


def _nth_root(value: Fraction, index: Fraction) -> Fraction | None:
    return _root(value, index.numerator) if index.denominator == 1 and 2 <= index <= 64 else None


def _integers(function: Callable[..., int]) -> Callable[..., Fraction | None]:
    def rule(*values: Fraction) -> Fraction | None:
        if any(value.denominator != 1 for value in values):
            return None
        return Fraction(function(*(value.numerator for value in values)))

    return rule


def _mod(a: Fraction, b: Fraction) -> Fraction:
    if b == 0:
        raise Undefined("a division by zero")
    return a % b


_FUNCTIONS: dict[str, Callable[..., Fraction | None]] = {
    "factorial": _factorial,
    "double factorial": _double_factorial,
    "binom": _binomial,
    "choose": _binomial,
    "sqrt": _sqrt,
    "root": _nth_root,
    "abs": lambda value: abs(value),
    "floor": lambda value: Fraction(math.floor(value)),
    "ceil": lambda value: Fraction(math.ceil(value)),
    "max": lambda *values: max(values),
    "min": lambda *values: min(values),
    "gcd": _integers(math.gcd),
    "lcm": _integers(math.lcm),
    "mod": _mod,
}

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
