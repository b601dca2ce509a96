"""Compares expressions by their values at points, in floating point and to a hundred digits.

Floating point quickly shows that two values differ. That they are equal is accepted only to a hundred digits.
"""

from __future__ import annotations

import cmath
import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

from math_reward.grader.errors import TooComplex, Undefined
from math_reward.grader.mathematics import corners
from math_reward.grader.mathematics.evaluation import FLOATS, Digits, Unknown, Value, digits_field, evaluate
from math_reward.grader.notation.syntax import BigOperator, Call, Negative, Node, Power, symbols, walk
from math_reward.grader.words.functions import known

_COUNTS = re.compile("[a-dh-sA-Z]|integer ")
"""The letters that count: (-1)^n has only whole n, (-1)^x may have any x."""

DIGITS = 100
"""Enough unless a number on the way is above 10^20 or below 10^-20; then as many more digits as it needs."""

MAX_DIGITS = 16_384

POINTS = 12

NEEDED_POINTS = 3

_COARSE = 1e-6


def same_constant(left: Node, right: Node) -> bool:
    """Whether two expressions without variables have the same value.

    Raises:
        Unknown: one of them has no value that can be computed.
        Undefined: one of them has no value at all.
        TooComplex: a number is too big to compute.
    """
    return _same(left, right, {}) is True


def are_near(left: Node, right: Node, distance: Fraction) -> bool:
    """Whether two numbers are at most ``distance`` apart, to as many digits as ``same_constant`` compares.

    Raises:
        Undefined, TooComplex: as ``same_constant``.
    """

    def holds(field: Digits) -> bool:
        a, b = evaluate(left, {}, field), evaluate(right, {}, field)
        field.seen(field.number(distance))
        return bool(abs(a - b) <= field.number(distance))

    return _to_many_digits(holds)


def same_function(left: Node, right: Node) -> bool | None:
    """Whether two expressions agree wherever ``left`` is real, as far as seeded points can tell; None if they have
    values at too few points.

    Only ``left`` may restrict the points to whole numbers: 0 agrees with sin(pi x) there, but not elsewhere. If one
    has a branch (an absolute value, a root, a maximum), both are compared on every side of its corners.

    Raises:
        Unknown, TooComplex: as ``same_constant``.
    """
    names = sorted(symbols(left) | symbols(right))
    whole_numbers = _needs_whole_numbers(left)
    if not whole_numbers and corners.has_steps(right) and not corners.has_steps(left):
        return False
    real: list[tuple[dict[str, float], Value]] = []
    complex_: list[tuple[dict[str, float], Value]] = []
    for point in _at(names, _points(len(names), whole_numbers)):
        try:
            value = evaluate(left, point)
        except Undefined:
            continue
        except OverflowError:
            real.append((point, None))  # Too big for floating point, but not for many digits.
            continue
        (real if FLOATS.is_real(value) else complex_).append((point, value))
    points = real if len(real) >= NEEDED_POINTS else real + complex_
    if len(points) < NEEDED_POINTS:
        return None
    if not all(_same(left, right, *at, to_many_digits=index < 2) for index, at in enumerate(points)):
        return False
    if corners.has_conjugates(left) or corners.has_conjugates(right):
        return _same_at_complex_points(left, right, names)
    if not whole_numbers:
        return all(_same_there(left, right, point) for point in corners.points(left, right, names))
    return _same_further_on(left, right, [point for point, _ in points], names)


def _same_at_complex_points(left: Node, right: Node, names: Sequence[str]) -> bool:
    for point in _at(names, _complex_points(len(names))):
        try:
            evaluate(left, point)
        except (Undefined, OverflowError):
            continue
        if not _same(left, right, point):
            return False
    return True


def _same_further_on(left: Node, right: Node, points: list[dict[str, float]], names: Sequence[str]) -> bool:
    """Whether two expressions in whole numbers, which agree at some small ones, agree at larger ones too.

    A branch that no point takes is not compared, so there must be none: ``min(n, 9)!`` is n! up to 9.
    """
    for point in _at(names, _larger_numbers(len(names))) + corners.whole_points(left, right, names):
        try:
            evaluate(left, point)
        except Undefined:
            continue
        except OverflowError:
            pass  # Too big for floating point, but not for many digits.
        try:
            if not _same(left, right, point):
                return False
        except TooComplex:
            continue
        points.append(point)
    return not corners.unseen_branch(right, points)


def _same_there(left: Node, right: Node, point: Mapping[str, float]) -> bool:
    """Like ``_same``, at a point that may be far away: if they seem to differ, many digits decide."""
    try:
        a = evaluate(left, point)
        if not (FLOATS.is_real(a) and cmath.isfinite(a)):
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
    None if they have values at too few points.

    The points have both signs and, if nothing has a branch, are complex too: |x| and x differ there. Values that are
    infinite or NaN in floating point are computed to many digits, and only these show that the ratio is constant.

    Raises:
        Unknown, TooComplex: as ``same_constant``.
    """
    names = sorted(symbols(left) | symbols(right))
    if corners.has_steps(left) != corners.has_steps(right):
        return False
    conjugates = corners.has_conjugates(left) or corners.has_conjugates(right)
    branched = not conjugates and (corners.has_branches(left) or corners.has_branches(right))
    points: list[dict[str, Any]] = _at(names, _points(len(names), False))
    if branched:
        points += corners.points(left, right, names)
    else:
        points += _at(names, _complex_points(len(names)))
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

    def sides(field: Digits) -> tuple[Value, Value]:
        at, there = _exact_point(point), _exact_point(other)
        a, b = evaluate(left, at, field), evaluate(right, at, field)
        c, d = evaluate(left, there, field), evaluate(right, there, field)
        return a * d, b * c

    try:
        return _equal_to_many_digits(sides)
    except Undefined:
        return True  # They are compared only where both are defined.


def where_they_differ(left: Node, right: Node) -> tuple[dict[str, float], float, float] | None:
    """A point where two expressions have different real values, and these values; None if none is found."""
    names = sorted(symbols(left) | symbols(right))
    for point in _at(names, _points(len(names), _needs_whole_numbers(left))):
        try:
            a, b = evaluate(left, point), evaluate(right, point)
        except (Undefined, OverflowError, Unknown):
            continue
        known = FLOATS.is_real(a) and FLOATS.is_real(b) and cmath.isfinite(a) and cmath.isfinite(b)
        if known and abs(a - b) > _COARSE * max(1.0, abs(a), abs(b)):
            return point, float(FLOATS.real(a)), float(FLOATS.real(b))
    return None


def _same(
    left: Node, right: Node, point: Mapping[str, float], known: Value = None, *, to_many_digits: bool = True
) -> bool:
    """Whether both have the same value at a point; ``known`` is the value of ``left`` in floating point, if known."""
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


def _equal_to_many_digits(sides: Callable[[Digits], tuple[Value, Value]]) -> bool:
    """Whether two values are equal to ``DIGITS`` digits, or to as many more as the numbers on the way need."""
    return _to_many_digits(lambda field: _close(field, *sides(field)))


def _to_many_digits(holds: Callable[[Digits], bool]) -> bool:
    """Whether something holds with ``DIGITS`` digits, and with as many more as the numbers on the way need."""
    field = digits_field(DIGITS)
    field.spread = 0.0
    if not holds(field):
        return False
    needed = DIGITS + 0.7 * field.spread  # twice the digits of the largest number, or the smallest
    if needed <= 1.6 * DIGITS:
        return True
    if needed > MAX_DIGITS:
        raise TooComplex("a number in it is too big or too small")
    return holds(digits_field(1 << math.ceil(math.log2(needed))))


def _close(field: Digits, a: Value, b: Value) -> bool:
    tiny = field.number(Fraction(1, 10 ** (field.digits - 20)))
    return bool(abs(a - b) <= tiny * max(abs(a), abs(b), field.number(Fraction(1, 10**10))))


def _exact_point(point: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value if isinstance(value, complex) else Fraction(value) for name, value in point.items()}


def _at(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Points, by the names of the variables."""
    return [dict(zip(names, row, strict=True)) for row in rows]


@lru_cache(maxsize=32)
def _points(variables: int, whole_numbers: bool) -> Sequence[tuple[float, ...]]:
    """Seeded points: between 0 and 1, above 1, and of both signs; or whole numbers."""
    source = random.Random(20_250_804 + variables)
    if whole_numbers:
        return [tuple(float(source.randint(1, 9)) for _ in range(variables)) for _ in range(POINTS)]
    ranges = [(0.08, 0.93)] * 4 + [(1.07, 4.1)] * 4 + [(-3.3, 3.3)] * 4
    return [tuple(round(source.uniform(*bounds), 6) for _ in range(variables)) for bounds in ranges]


@lru_cache(maxsize=32)
def _larger_numbers(variables: int) -> Sequence[tuple[float, ...]]:
    """Seeded whole numbers above 9. The first variables are the larger ones or the smaller: n over k has n above k."""
    source = random.Random(20_250_806 + variables)
    rows = [tuple(sorted(float(source.randint(10, last)) for _ in range(variables))) for last in (20, 20, 60)]
    return [*rows, *(row[::-1] for row in rows if variables > 1)]


@lru_cache(maxsize=32)
def _complex_points(variables: int) -> Sequence[tuple[complex, ...]]:
    source = random.Random(20_250_805 + variables)

    def part() -> float:
        return round(source.uniform(-2.6, 2.6), 6)

    return [tuple(complex(part(), part()) for _ in range(variables)) for _ in range(4)]


def _needs_whole_numbers(node: Node) -> bool:
    """Whether the variables must be whole numbers, as those of factorials, of (-1)^n and of a sum's end are; the
    variable of a sum is so anyway.
    """
    free = symbols(node)
    for part in walk(node) if free else ():
        if isinstance(part, Call) and known(part.function).is_whole and symbols(part) & free:
            return True
        if isinstance(part, BigOperator) and "int" not in part.name and part.upper and free <= symbols(part.upper):
            return True
        if isinstance(part, Power) and isinstance(part.base, Negative):
            names = symbols(part.exponent) & free
            if names and all(map(_COUNTS.match, names)):
                return True
    return False
