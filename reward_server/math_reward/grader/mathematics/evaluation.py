"""The value of an expression at a point, in floating point or to many digits."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

from math_reward.grader.errors import TooComplex, Undefined
from math_reward.grader.notation.exact import exact
from math_reward.grader.notation.syntax import (
    BasedNumber,
    BigOperator,
    Call,
    Constant,
    Negative,
    Node,
    Number,
    Power,
    Product,
    Quantity,
    Quotient,
    Relation,
    Sum,
    Symbol,
    symbols,
)
from math_reward.grader.words.functions import Value, known, undefined

MAX_TERMS = 2_000
"""A sum or a product with more terms is not calculated."""

SERIES_TERMS, SMALL_TERMS = 80, 12
"""An infinite sum has a value where, of these first terms, so many in a row are too small to change it."""

MAX_MAGNITUDE_BITS = 100_000
"""The largest binary exponent of a value that is computed to many digits."""

_EXPONENTIAL = frozenset(["exp", "sinh", "cosh", "tanh"])


class Unknown(ValueError):
    """The expression has no value at a point: it has words, sets, an integral or an unknown function in it."""


class Floats:
    """Floating point. Real values stay ``float``: the square root of -4 is 2i, whatever the sign of a zero."""

    pi: Value = math.pi
    e: Value = math.e
    i: Value = 1j

    @staticmethod
    def number(value: Fraction) -> Value:
        return value.numerator / value.denominator

    @staticmethod
    def complex(value: complex) -> Value:
        return value

    @staticmethod
    def power(base: Value, exponent: Value) -> Value:
        if type(base) is float and (base > 0 or exponent == int(exponent.real)):
            return base**exponent
        if base == 0:
            return 0.0 if exponent.real > 0 else undefined()
        return complex(base) ** exponent

    @staticmethod
    def function(name: str, value: Value) -> Value:
        if type(value) is float:
            try:
                return getattr(math, name)(value)
            except ValueError:
                value = complex(value, 0.0)
        return getattr(cmath, name)(value)

    @staticmethod
    def root(value: Value, index: int) -> Value:
        if type(value) is float:
            if value >= 0:
                return value ** (1 / index)
            if index % 2:
                return -((-value) ** (1 / index))
        return complex(value) ** (1 / index)

    @staticmethod
    def factorial(value: Value) -> Value:
        if type(value) is float:
            return math.gamma(value + 1)
        import mpmath  # late, here and below: it takes a fifth of the library's import, and few answers need it

        return complex(mpmath.fp.gamma(value + 1))

    @staticmethod
    def zeta(value: Value) -> Value:
        if value == 1:
            undefined()
        import mpmath

        return mpmath.fp.zeta(value)

    @staticmethod
    def is_real(value: Value) -> bool:
        return type(value) is float or type(value) is int or abs(value.imag) <= 1e-12 * abs(value)

    @staticmethod
    def real(value: Value) -> Value:
        return value if type(value) is float else value.real


class Digits:
    """mpmath with ``digits`` digits. ``spread`` is the largest binary exponent, up or down, of a value on the way."""

    def __init__(self, digits: int) -> None:
        import mpmath

        self._mp = mpmath.mp.clone()
        self._mp.dps = self.digits = digits
        self.spread = 0.0
        self.pi: Value = +self._mp.pi
        self.e: Value = +self._mp.e
        self.i: Value = self._mp.mpc(0, 1)

    def seen(self, value: Value) -> None:
        """Records a value on the way: a number of 2^-300 beside 1 shows only with 300 bits."""
        if value:
            self.spread = max(self.spread, abs(float(self._mp.mag(value))))

    def number(self, value: Fraction) -> Value:
        return self._mp.mpf(value.numerator) / value.denominator

    def complex(self, value: complex) -> Value:
        return self._mp.mpc(value)

    def power(self, base: Value, exponent: Value) -> Value:
        if base == 0:
            return base if self._mp.re(exponent) > 0 else undefined()
        size = abs(self._mp.mag(base)) + 1
        if abs(exponent) * size > MAX_MAGNITUDE_BITS:
            raise TooComplex("a power in it is too big")
        return self._beside_one(self._mp.power(base, exponent), base, exponent)

    def function(self, name: str, value: Value) -> Value:
        if name == "exp" and abs(value) > MAX_MAGNITUDE_BITS:
            raise TooComplex("a power in it is too big")
        if abs(self._mp.mag(value)) > MAX_MAGNITUDE_BITS and value != 0:
            raise TooComplex("a number in it is too big")
        if name in _EXPONENTIAL:
            self.spread = max(self.spread, min(2.0 * float(abs(value)), 1e9))  # 1 - tanh 300 is e^-600.
        return getattr(self._mp, name)(value)

    def root(self, value: Value, index: int) -> Value:
        if self.is_real(value) and self.real(value) < 0 and index % 2:
            return -self.root(-self.real(value), index)
        return self._beside_one(self._mp.root(value, index), value, index)

    def _beside_one(self, value: Value, base: Value, exponent: Value) -> Value:
        """``value``, a root or a power, with what it differs from one on record: a tower of roots comes close.

        Raises:
            TooComplex: it is not one, and these digits do not show it.
        """
        difference = value - 1
        if difference:
            self.seen(difference)
        elif exponent and base != 1 and self.is_real(base) and self.real(base) > 0:
            raise TooComplex("a root in it is too close to one")
        return value

    def factorial(self, value: Value) -> Value:
        if abs(value) > 10_000:
            raise TooComplex("a factorial in it is too big")
        return self._mp.gamma(value + 1)

    def zeta(self, value: Value) -> Value:
        if value == 1:
            undefined()
        if abs(value) > 1_000:
            raise TooComplex("a number in it is too big")
        self.spread = max(self.spread, float(abs(value)))  # 1 - zeta(300) is 2^-300.
        return self._mp.zeta(value)

    def is_real(self, value: Value) -> bool:
        return abs(self._mp.im(value)) <= abs(value) * self._mp.mpf(10) ** (8 - self.digits)

    def real(self, value: Value) -> Value:
        return self._mp.re(value)


FLOATS = Floats()


@lru_cache(maxsize=8)
def digits_field(digits: int) -> Digits:
    return Digits(digits)


def evaluate(node: Node, point: Mapping[str, Any], field: Any = FLOATS) -> Value:
    """The value of ``node`` at ``point``, which gives each variable a float (or a Fraction for ``Digits``).

    Raises:
        Unknown: a part of it has no value.
        Undefined: a division by zero or the like.
        OverflowError: too big for floating point.
    """
    rule = _RULES.get(type(node))
    if rule is None:
        raise Unknown(f"{type(node).__name__} has no value at a point")
    try:
        value = rule(node, point, field)
        if field is not FLOATS:
            field.seen(value)
        return value
    except (ZeroDivisionError, ValueError) as error:
        if isinstance(error, (Unknown, TooComplex)):
            raise
        raise Undefined(str(error)) from None


def real_value(node: Node, point: Mapping[str, Any] | None = None) -> float | None:
    """The real, finite value of ``node`` at a point, in floating point; None if it has none."""
    try:
        value = evaluate(node, point or {})
    except (ArithmeticError, ValueError):
        return None
    return float(FLOATS.real(value)) if cmath.isfinite(value) and FLOATS.is_real(value) else None


def _number(node: Number, point: Mapping[str, Any], field: Any) -> Value:
    return field.number(node.value)


def _symbol(node: Symbol, point: Mapping[str, Any], field: Any) -> Value:
    value = point.get(node.name)
    if value is None:
        raise Unknown(f"{node.name} is unknown")
    if type(value) is float:
        return value
    return field.complex(value) if type(value) is complex else field.number(value)


def _constant(node: Constant, point: Mapping[str, Any], field: Any) -> Value:
    if node.name in ("pi", "e", "i"):
        return getattr(field, node.name)
    raise Unknown(f"{node.name} is no number")


def _negative(node: Negative, point: Mapping[str, Any], field: Any) -> Value:
    return -evaluate(node.operand, point, field)


def _sum(node: Sum, point: Mapping[str, Any], field: Any) -> Value:
    total = evaluate(node.terms[0], point, field)
    for term in node.terms[1:]:
        total += evaluate(term, point, field)
    return total


def _product(node: Product, point: Mapping[str, Any], field: Any) -> Value:
    total = evaluate(node.factors[0], point, field)
    for factor in node.factors[1:]:
        total *= evaluate(factor, point, field)
    return total


def _quotient(node: Quotient, point: Mapping[str, Any], field: Any) -> Value:
    return evaluate(node.numerator, point, field) / evaluate(node.denominator, point, field)


def _power(node: Power, point: Mapping[str, Any], field: Any) -> Value:
    exponent = node.exponent
    if type(exponent) is Quotient or (type(exponent) is Number and exponent.value.denominator != 1):
        power = exact(exponent)
        if power is not None and power.denominator % 2 and 1 < power.denominator < 100 and symbols(node.base):
            # People mean the square of the real cube root by x^{2/3}.
            root = field.root(evaluate(node.base, point, field), power.denominator)
            return field.power(root, field.number(Fraction(power.numerator)))
    return field.power(evaluate(node.base, point, field), evaluate(node.exponent, point, field))


def _based(node: BasedNumber, point: Mapping[str, Any], field: Any) -> Value:
    return field.number(node.value)


def _quantity(node: Quantity, point: Mapping[str, Any], field: Any) -> Value:
    value = evaluate(node.value, point, field)
    if node.unit == "degree":
        return value * field.pi / 180
    if node.unit == "percent":
        return value / 100
    raise Unknown(f"a value in {node.unit} is no number")


def _call(node: Call, point: Mapping[str, Any], field: Any) -> Value:
    rule = known(node.function).value
    if rule is None:
        raise Unknown(f"the function {node.function} is unknown")
    return rule(field, *[evaluate(argument, point, field) for argument in node.arguments])


def _big_operator(node: BigOperator, point: Mapping[str, Any], field: Any) -> Value:
    """A sum or product, term by term; an infinite one only in floating point, and where it soon converges."""
    lower, upper = node.lower, node.upper
    if node.name not in ("sum", "prod") or upper is None or not isinstance(lower, Relation):
        raise Unknown(f"\\{node.name} has no value at a point")
    variable, first = lower.operands[0], lower.operands[-1]
    if lower.operators != ("=",) or not isinstance(variable, Symbol):
        raise Unknown("its bounds are not known")
    is_series = field is FLOATS and upper == Constant("infinity")
    start = evaluate(first, point, field)
    stop = start + SERIES_TERMS if is_series else evaluate(upper, point, field)
    if not field.is_real(start) or not field.is_real(stop) or start != int(start) or stop != int(stop):
        raise Unknown("its bounds are no whole numbers")
    if stop - start > MAX_TERMS:
        raise TooComplex(f"a sum in it has more than {MAX_TERMS:,} terms")
    total: Value = field.number(Fraction(0 if node.name == "sum" else 1))
    small = 0
    for index in range(int(start), int(stop) + 1):
        term = evaluate(node.body, {**point, variable.name: Fraction(index)}, field)
        before, total = total, total + term if node.name == "sum" else total * term
        small = small + 1 if is_series and total and abs(total - before) <= 1e-16 * abs(total) else 0
        if small == SMALL_TERMS:
            return total
    if is_series:
        raise Unknown("it is not seen to converge")
    return total


_RULES: dict[type, Callable[..., Value]] = {
    Number: _number,
    Symbol: _symbol,
    Constant: _constant,
    Negative: _negative,
    Sum: _sum,
    Product: _product,
    Quotient: _quotient,
    Power: _power,
    BasedNumber: _based,
    Quantity: _quantity,
    Call: _call,
    BigOperator: _big_operator,
}
