"""Values at points: what an expression is, in floating point or to a hundred digits, where its variables have values.

Floating point tells different values apart quickly; that two values are equal is only believed to a hundred digits.
"""

from __future__ import annotations

import cmath
import math
import random
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import mpmath

from math_reward.grader import corners
from math_reward.grader.exact import Undefined, exact
from math_reward.grader.syntax import (
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
    walk,
)
from math_reward.grader.tokens import TooComplex

DIGITS = 100
"""Enough for what has no number in it beyond 10^20 or 10^-20; with such a number, as many more as it asks for."""
MAX_DIGITS = 16_384
MAX_TERMS = 2_000
"""Of a sum or a product."""
MAX_MAGNITUDE_BITS = 100_000
"""The exponent of the largest value that is computed to many digits."""
POINTS = 12
NEEDED_POINTS = 3
_COARSE = 1e-6

Value = Any
"""float or complex, or mpmath's mpf or mpc."""


_EXPONENTIAL = frozenset(["exp", "sinh", "cosh", "tanh"])


class Unknown(ValueError):
    """The expression has no value at a point: it has words, sets, an integral or an unknown function in it."""


class _Floats:
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
            return 0.0 if exponent.real > 0 else _undefined()
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
        return math.gamma(value + 1) if type(value) is float else complex(mpmath.fp.gamma(value + 1))

    @staticmethod
    def zeta(value: Value) -> Value:
        return _undefined() if value == 1 else mpmath.fp.zeta(value)

    @staticmethod
    def is_real(value: Value) -> bool:
        return type(value) is float or type(value) is int or abs(value.imag) <= 1e-12 * abs(value)

    @staticmethod
    def real(value: Value) -> Value:
        return value if type(value) is float else value.real


class _Digits:
    """mpmath with so many digits. ``spread`` is how large or small a number was on the way, in bits."""

    def __init__(self, digits: int) -> None:
        self._mp = mpmath.mp.clone()
        self._mp.dps = self.digits = digits
        self.spread = 0.0
        self.pi: Value = +self._mp.pi
        self.e: Value = +self._mp.e
        self.i: Value = self._mp.mpc(0, 1)

    def seen(self, value: Value) -> None:
        """Takes account of a value on the way: next to 1 a number of 2^-300 shows in 300 bits alone."""
        if value:
            self.spread = max(self.spread, abs(float(self._mp.mag(value))))

    def number(self, value: Fraction) -> Value:
        return self._mp.mpf(value.numerator) / value.denominator

    def complex(self, value: complex) -> Value:
        return self._mp.mpc(value)

    def power(self, base: Value, exponent: Value) -> Value:
        if base == 0:
            return base if self._mp.re(exponent) > 0 else _undefined()
        size = abs(self._mp.mag(base)) + 1
        if abs(exponent) * size > MAX_MAGNITUDE_BITS:
            raise TooComplex("a power in it is too big")
        return self._mp.power(base, exponent)

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
            return -self._mp.root(-self.real(value), index)
        return self._mp.root(value, index)

    def factorial(self, value: Value) -> Value:
        if abs(value) > 10_000:
            raise TooComplex("a factorial in it is too big")
        return self._mp.gamma(value + 1)

    def zeta(self, value: Value) -> Value:
        if value == 1:
            _undefined()
        if abs(value) > 1_000:
            raise TooComplex("a number in it is too big")
        return self._mp.zeta(value)

    def is_real(self, value: Value) -> bool:
        return abs(self._mp.im(value)) <= abs(value) * self._mp.mpf(10) ** (8 - self.digits)

    def real(self, value: Value) -> Value:
        return self._mp.re(value)


_FLOATS = _Floats()


@lru_cache(maxsize=8)
def _digits(digits: int) -> _Digits:
    return _Digits(digits)


def _undefined() -> Value:
    raise Undefined("it has no value there")


def same_constant(left: Node, right: Node) -> bool:
    """Whether two expressions without variables have the same value.

    Raises:
        Unknown: one of them has no value that can be computed.
        Undefined: one of them has no value at all.
        TooComplex: a number is too big to compute.
    """
    return _same(left, right, {}) is True


def same_function(left: Node, right: Node) -> bool | None:
    """Whether two expressions agree wherever ``left`` is real, as far as seeded points can tell; None where too few
    points tell anything.

    Only ``left`` may ask for whole numbers as points: what agrees with sin(pi x) at them need not agree elsewhere.
    Where one has a branch (an absolute value, a root, a maximum), both are looked at on every side of its corners.

    Raises:
        Unknown, TooComplex: as ``same_constant``.
    """
    names = sorted(symbols(left) | symbols(right))
    whole_numbers = _needs_whole_numbers(left)
    if not whole_numbers and corners.has_steps(right) and not corners.has_steps(left):
        return False
    real: list[tuple[dict[str, float], Value]] = []
    complex_: list[tuple[dict[str, float], Value]] = []
    for row in _points(len(names), whole_numbers):
        point = dict(zip(names, row, strict=True))
        try:
            value = evaluate(left, point)
        except Undefined:
            continue
        except OverflowError:
            real.append((point, None))  # Too big for floating point and not for many digits.
            continue
        (real if _FLOATS.is_real(value) else complex_).append((point, value))
    points = real if len(real) >= NEEDED_POINTS else real + complex_
    if len(points) < NEEDED_POINTS:
        return None
    if not all(_same(left, right, *at, to_many_digits=index < 2) for index, at in enumerate(points)):
        return False
    return whole_numbers or all(_same_there(left, right, point) for point in corners.points(left, right, names))


def _same_there(left: Node, right: Node, point: Mapping[str, float]) -> bool:
    """As ``_same``, at a point that may be far away: where they seem to differ, many digits decide."""
    try:
        a = evaluate(left, point)
        if not (_FLOATS.is_real(a) and cmath.isfinite(a)):
            return True
        b = evaluate(right, point)
        if cmath.isfinite(b) and abs(a - b) <= _COARSE * max(1.0, abs(a), abs(b)):
            return True
    except OverflowError:
        return True
    except Undefined:
        return True
    try:
        return _same_to_many_digits(left, right, point)
    except Undefined:
        return False


def proportional(left: Node, right: Node, *, positive: bool) -> bool | None:
    """Whether ``left`` is a constant (positive) multiple of ``right``, so that both are zero (positive) together;
    None where too few points tell.

    Looked at in points of both signs and, where nothing has a branch, in complex ones: |x| and x differ there. What is
    infinite or NaN in floating point is computed to many digits; that the ratio is constant is only believed so.

    Raises:
        Unknown, TooComplex: as ``same_constant``.
    """
    names = sorted(symbols(left) | symbols(right))
    if corners.has_steps(left) != corners.has_steps(right):
        return False
    branched = corners.has_branches(left) or corners.has_branches(right)
    points: list[dict[str, Any]] = [dict(zip(names, row, strict=True)) for row in _points(len(names), False)]
    if branched:
        points += corners.points(left, right, names)
    else:
        points += [dict(zip(names, row, strict=True)) for row in _complex_points(len(names))]
    ratio: complex | None = None
    agreeing: list[dict[str, Any]] = []
    for point in points:
        try:
            a, b = evaluate(left, point), evaluate(right, point)
        except Undefined:
            continue
        except OverflowError:
            a = b = math.nan
        if not (cmath.isfinite(a) and cmath.isfinite(b)):
            if not agreeing or _ratio_holds(left, right, agreeing[0], point):
                continue
            return False
        if not a and not b:
            continue
        if not a or not b:
            return False
        if ratio is None:
            ratio = a / b
        elif abs(a / b - ratio) > _COARSE * abs(ratio):
            return False
        agreeing.append(point)
    if ratio is None or len(agreeing) < NEEDED_POINTS or not cmath.isfinite(ratio):
        return None
    if not all(_ratio_holds(left, right, agreeing[0], point) for point in agreeing[1:3]):
        return False
    return not positive or (abs(ratio.imag) <= 1e-9 * abs(ratio) and ratio.real > 0)


def _ratio_holds(left: Node, right: Node, point: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether left/right is the same number at two points, to many digits."""

    def sides(field: _Digits) -> tuple[Value, Value]:
        at, there = _exact_point(point), _exact_point(other)
        a, b = evaluate(left, at, field), evaluate(right, at, field)
        c, d = evaluate(left, there, field), evaluate(right, there, field)
        return a * d, b * c

    try:
        return _equal_to_many_digits(sides)
    except Undefined:
        return True  # Both are looked at where they are defined.


def constant(node: Node) -> float | None:
    """The real value of an expression without variables, in floating point; None where it has none that is finite."""
    try:
        value = evaluate(node, {})
    except (Unknown, Undefined, OverflowError, TooComplex):
        return None
    if not _FLOATS.is_real(value):
        return None
    real = float(_FLOATS.real(value))
    return real if math.isfinite(real) else None


def _same(
    left: Node, right: Node, point: Mapping[str, float], known: Value = None, *, to_many_digits: bool = True
) -> bool:
    """Whether both have the same value at a point; ``known`` is that of ``left`` in floating point, where it is."""
    try:
        a = evaluate(left, point) if known is None else known
        b = evaluate(right, point)
        if not (cmath.isfinite(a) and cmath.isfinite(b)):
            raise OverflowError
        if abs(a - b) > _COARSE * max(1.0, abs(a), abs(b)):
            return False
        if not to_many_digits:
            return True
    except OverflowError:
        pass
    except Undefined:
        if point:
            return False
        raise
    return _same_to_many_digits(left, right, point)


def _same_to_many_digits(left: Node, right: Node, point: Mapping[str, float]) -> bool:
    at = _exact_point(point)
    return _equal_to_many_digits(lambda field: (evaluate(left, at, field), evaluate(right, at, field)))


def _equal_to_many_digits(sides: Callable[[_Digits], tuple[Value, Value]]) -> bool:
    """Whether two values are equal to ``DIGITS`` digits, or as many as the numbers on the way to them ask for."""
    field = _digits(DIGITS)
    field.spread = 0.0
    if not _close(field, *sides(field)):
        return False
    needed = DIGITS + 0.7 * field.spread  # twice the digits of the largest number, or the smallest
    if needed <= 1.6 * DIGITS:
        return True
    if needed > MAX_DIGITS:
        raise TooComplex("a number in it is too big or too small")
    field = _digits(1 << math.ceil(math.log2(needed)))
    return _close(field, *sides(field))


def _close(field: _Digits, a: Value, b: Value) -> bool:
    tiny = field.number(Fraction(1, 10 ** (field.digits - 20)))
    return bool(abs(a - b) <= tiny * max(abs(a), abs(b), field.number(Fraction(1, 10**10))))


def _exact_point(point: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value if isinstance(value, complex) else Fraction(value) for name, value in point.items()}


@lru_cache(maxsize=32)
def _points(variables: int, whole_numbers: bool) -> Sequence[tuple[float, ...]]:
    """Seeded points: between 0 and 1, a little above, and of both signs; or whole numbers."""
    source = random.Random(20_250_804 + variables)
    if whole_numbers:
        return [tuple(float(source.randint(1, 9)) for _ in range(variables)) for _ in range(POINTS)]
    ranges = [(0.08, 0.93)] * 4 + [(1.07, 4.1)] * 4 + [(-3.3, 3.3)] * 4
    return [tuple(round(source.uniform(*bounds), 6) for _ in range(variables)) for bounds in ranges]


@lru_cache(maxsize=32)
def _complex_points(variables: int) -> Sequence[tuple[complex, ...]]:
    source = random.Random(20_250_805 + variables)

    def part() -> float:
        return round(source.uniform(-2.6, 2.6), 6)

    return [tuple(complex(part(), part()) for _ in range(variables)) for _ in range(4)]


def _needs_whole_numbers(node: Node) -> bool:
    """Factorials, (-1)^n and the like have variables that stand for whole numbers."""
    for part in walk(node):
        if isinstance(part, Call) and part.function in _WHOLE and symbols(part):
            return True
        if isinstance(part, Power) and isinstance(part.base, Negative) and symbols(part.exponent):
            return True
    return False


_WHOLE = {"factorial", "double factorial", "binom", "choose", "mod", "gcd", "lcm"}


def evaluate(node: Node, point: Mapping[str, Any], field: Any = _FLOATS) -> Value:
    """The value of ``node`` where its variables are as ``point`` says (floats, or Fractions for ``_Digits``).

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
        if field is not _FLOATS:
            field.seen(value)
        return value
    except (ZeroDivisionError, ValueError) as error:
        if isinstance(error, (Unknown, TooComplex)):
            raise
        raise Undefined(str(error)) from None


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
    if isinstance(exponent, (Quotient, Number)) and symbols(node.base):
        power = exact(exponent)
        if power is not None and power.denominator % 2 and 1 < power.denominator < 100:
            # x^{2/3} is the square of the real cube root, as people write it.
            root = field.root(evaluate(node.base, point, field), power.denominator)
            return field.power(root, field.number(Fraction(power.numerator)))
    return field.power(evaluate(node.base, point, field), evaluate(node.exponent, point, field))


def _based(node: BasedNumber, point: Mapping[str, Any], field: Any) -> Value:
    return field.number(Fraction(int(node.digits, node.base)))


def _quantity(node: Quantity, point: Mapping[str, Any], field: Any) -> Value:
    value = evaluate(node.value, point, field)
    if node.unit == "degree":
        return value * field.pi / 180
    if node.unit == "percent":
        return value / 100
    raise Unknown(f"a value in {node.unit} is no number")


def _call(node: Call, point: Mapping[str, Any], field: Any) -> Value:
    rule = _FUNCTIONS.get(node.function)
    if rule is None:
        raise Unknown(f"the function {node.function} is unknown")
    return rule(field, *[evaluate(argument, point, field) for argument in node.arguments])


def _big_operator(node: BigOperator, point: Mapping[str, Any], field: Any) -> Value:
    """A finite sum or product, term by term."""
    lower, upper = node.lower, node.upper
    if node.name not in ("sum", "prod") or upper is None or not isinstance(lower, Relation):
        raise Unknown(f"\\{node.name} has no value at a point")
    variable, first = lower.operands[0], lower.operands[-1]
    if lower.operators != ("=",) or not isinstance(variable, Symbol):
        raise Unknown("its bounds are not known")
    start, stop = (evaluate(end, point, field) for end in (first, upper))
    if not field.is_real(start) or not field.is_real(stop) or start != int(start) or stop != int(stop):
        raise Unknown("its bounds are no whole numbers")
    if stop - start > MAX_TERMS:
        raise TooComplex(f"a sum in it has more than {MAX_TERMS:,} terms")
    total: Value = field.number(Fraction(0 if node.name == "sum" else 1))
    for index in range(int(start), int(stop) + 1):
        term = evaluate(node.body, {**point, variable.name: Fraction(index)}, field)
        total = total + term if node.name == "sum" else total * term
    return total


def _elementary(name: str) -> Callable[..., Value]:
    return lambda field, value: field.function(name, value)


def _reciprocal(name: str) -> Callable[..., Value]:
    return lambda field, value: 1 / field.function(name, value)


def _of_reciprocal(name: str) -> Callable[..., Value]:
    return lambda field, value: field.function(name, 1 / value)


def _log(field: Any, value: Value, base: Value = None) -> Value:
    if value == 0:
        _undefined()
    result = field.function("log", value)
    return result if base is None else result / field.function("log", base)


def _root(field: Any, value: Value, index: Value) -> Value:
    whole = int(field.real(index))
    if whole == index and 2 <= whole <= 1000:
        return field.root(value, whole)
    return field.power(value, 1 / index)


def _whole(function: Callable[..., int]) -> Callable[..., Value]:
    def rule(field: Any, *values: Value) -> Value:
        numbers = [int(field.real(value)) for value in values]
        if any(number != value for number, value in zip(numbers, values, strict=True)):
            _undefined()
        return field.number(Fraction(function(*numbers)))

    return rule


def _rounded(function: Callable[[Any], int]) -> Callable[..., Value]:
    def rule(field: Any, value: Value) -> Value:
        if not field.is_real(value):
            _undefined()
        return field.number(Fraction(function(field.real(value))))

    return rule


def _extreme(function: Callable[..., Any]) -> Callable[..., Value]:
    return lambda field, *values: function(field.real(value) for value in values)


def _double_factorial(field: Any, value: Value) -> Value:
    n = int(field.real(value))
    if n != value or not 0 <= n <= 300:
        _undefined()
    return field.number(Fraction(math.prod(range(n, 0, -2))))


def _choose(field: Any, n: Value, k: Value) -> Value:
    return field.factorial(n) / (field.factorial(k) * field.factorial(n - k))


def _conjugate(field: Any, value: Value) -> Value:
    return 2 * field.real(value) - value


def _argument_of(field: Any, value: Value) -> Value:
    if not value:
        _undefined()
    return field.real(field.function("log", value) / field.i) if not field.is_real(value) or value < 0 else value * 0


def _mod(field: Any, a: Value, b: Value) -> Value:
    return field.real(a) % field.real(b)


_FUNCTIONS: dict[str, Callable[..., Value]] = {
    **{name: _elementary(name) for name in ("exp", "sin", "cos", "tan", "sinh", "cosh", "tanh", "sqrt")},
    **{name: _elementary(name) for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh")},
    "sec": _reciprocal("cos"),
    "csc": _reciprocal("sin"),
    "cot": _reciprocal("tan"),
    "sech": _reciprocal("cosh"),
    "csch": _reciprocal("sinh"),
    "coth": _reciprocal("tanh"),
    "asec": _of_reciprocal("acos"),
    "acsc": _of_reciprocal("asin"),
    "acot": lambda field, value: field.pi / 2 - field.function("atan", value),
    "log": _log,
    "root": _root,
    "abs": lambda field, value: abs(value),
    "factorial": lambda field, value: field.factorial(value),
    "double factorial": _double_factorial,
    "binom": _choose,
    "choose": _choose,
    "floor": _rounded(math.floor),
    "ceil": _rounded(math.ceil),
    "max": _extreme(max),
    "min": _extreme(min),
    "gcd": _whole(math.gcd),
    "lcm": _whole(math.lcm),
    "mod": _mod,
    "cis": lambda field, value: field.function("exp", field.i * value),
    "re": lambda field, value: field.real(value),
    "im": lambda field, value: field.real((value - field.real(value)) / field.i),
    "conj": _conjugate,
    "overline": _conjugate,
    "bar": _conjugate,
    "arg": _argument_of,
    "Arg": _argument_of,
    "sgn": lambda field, value: field.number(Fraction((field.real(value) > 0) - (field.real(value) < 0))),
    "gamma": lambda field, value: field.factorial(value - 1),
    "zeta": lambda field, value: field.zeta(value),
}

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
