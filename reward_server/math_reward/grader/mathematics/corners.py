r"""Finds where a function may change its formula: the corners of absolute values, roots, maxima and the like.

Two expressions that agree at ordinary points may differ behind a corner: ``x + \max(0, x - 100)`` is x up to 100.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction

from math_reward.grader.mathematics.evaluation import real_value
from math_reward.grader.notation.syntax import (
    Call,
    Constant,
    Negative,
    Node,
    Number,
    Power,
    difference,
    rebuilt,
    symbols,
    walk,
)
from math_reward.grader.words.functions import known

MAX_POINTS = 48
MAX_CORNERS = 12

LARGEST_WHOLE = 1_000
_OF_COMPLEX_NUMBERS = frozenset(["conj", "overline", "bar", "re", "im", "arg", "Arg"])
_FAR_NUMBERS = (97.0, 360.0)
_SCALES = (-4.1e5, -731.77, -41.3, 38.9, 1213.1, 7.7e5)
_GRID = sorted(sign * 1.37 * 2.0**power for power in range(-8, 34, 2) for sign in (-1, 1))

_FINE_GRID = sorted({*_GRID, *(0.37 * step + 0.011 for step in range(-40, 41))})


def has_steps(node: Node) -> bool:
    """Whether ``node`` jumps, as a floor or a remainder does."""
    return _breaks(node, "step")


def has_branches(node: Node) -> bool:
    """Whether ``node`` has different formulas on different sides of some point."""
    return _breaks(node, "step", "corner", "branch") or any(
        isinstance(part, Power) and not _whole(part.exponent) and symbols(part.base) for part in walk(node)
    )


def has_conjugates(node: Node) -> bool:
    """Whether a conjugate, a real part or the like of a letter is in ``node``: only at complex points is it another
    value than the letter.
    """
    return any(
        isinstance(part, Call)
        and part.function in _OF_COMPLEX_NUMBERS
        and symbols(part)
        and Constant("i") not in walk(part)
        for part in walk(node)
    )


def _breaks(node: Node, *ways: str) -> bool:
    return any(isinstance(part, Call) and known(part.function).breaks in ways and symbols(part) for part in walk(node))


def _whole(node: Node) -> bool:
    if isinstance(node, Negative):
        return _whole(node.operand)
    return isinstance(node, Number) and node.value.denominator == 1


def points(left: Node, right: Node, names: Sequence[str]) -> list[dict[str, float]]:
    """Points far away, at the corners of both expressions, between them and beside them; none without branches.

    One variable moves at a time; the others stay fixed.
    """
    if not names or not (has_branches(left) or has_branches(right)):
        return []
    switches = list(itertools.islice(itertools.chain(_switches(left), _switches(right)), MAX_CORNERS))
    samples: list[dict[str, float]] = []
    for index, name in enumerate(names[:3]):
        still = {other: 0.731 + 0.37 * place for place, other in enumerate(names) if place != index}
        found = [root for switch in switches for root in _roots(switch, name, still)]
        found += [root for side in (*_sides(left), *_sides(right)) for root in _touches(side, name, still)]
        corners = sorted({round(root, 12) for root in found})
        between = [(a + b) / 2 for a, b in itertools.pairwise(corners)]
        beside = [corner + step * (1 + abs(corner)) for corner in corners for step in (-1e-3, 1e-3)]
        places = [*_SCALES, *_jumps(left, right, name, still), *corners, *between, *beside]
        samples += [{**still, name: place} for place in places[:MAX_POINTS]]
    return samples


def whole_points(left: Node, right: Node, names: Sequence[str]) -> list[dict[str, float]]:
    """Whole numbers on both sides of the corners of both expressions, and far away; none without branches."""
    if not (has_branches(left) or has_branches(right)):
        return []
    switches = list(itertools.islice(itertools.chain(_switches(left), _switches(right)), MAX_CORNERS))
    samples: list[dict[str, float]] = []
    for index, name in enumerate(names[:3]):
        still = {other: 2.0 + place for place, other in enumerate(names) if place != index}
        places = {*_FAR_NUMBERS}
        for root in (root for switch in switches for root in _roots(switch, name, still)):
            places |= {float(math.floor(root) + step) for step in (-1, 0, 1, 2)}
        samples += [{**still, name: place} for place in sorted(places) if 0 < place <= LARGEST_WHOLE][:MAX_POINTS]
    return samples


def unseen_branch(node: Node, points: Sequence[Mapping[str, float]]) -> bool:
    """Whether a branch of ``node`` is taken at none of the points, so that they say nothing about it.

    Of ``max`` and ``min`` each argument has to be the largest or the least somewhere, and a floor has to jump.
    """
    for part in walk(node):
        if not isinstance(part, Call) or not symbols(part):
            continue
        if part.function in ("max", "min"):
            choose = max if part.function == "max" else min
            taken: set[int] = set()
            for point in points:
                sides = [real_value(argument, point) for argument in part.arguments]
                if None not in sides:
                    best = choose(side for side in sides if side is not None)
                    taken |= {index for index, side in enumerate(sides) if side == best}
            if len(taken) < len(part.arguments):
                return True
        elif known(part.function).breaks == "step" and len({real_value(part, point) for point in points} - {None}) < 2:
            return True
    return False


def _switches(node: Node) -> Iterator[Node]:
    """The expressions that change their sign at a corner."""
    for part in walk(node):
        if isinstance(part, Call) and known(part.function).breaks == "corner" and symbols(part):
            if part.function in ("max", "min"):
                for a, b in itertools.pairwise(part.arguments):
                    yield difference(a, b)
            else:
                yield part.arguments[0]


def _sides(node: Node) -> list[Node]:
    """What maxima and minima are of: one may touch zero between points at which another is taken."""
    calls = (part for part in walk(node) if isinstance(part, Call) and part.function in ("max", "min"))
    return [argument for call in itertools.islice(calls, MAX_CORNERS) for argument in call.arguments]


def _jumps(left: Node, right: Node, name: str, still: dict[str, float]) -> Iterator[float]:
    """The whole numbers at which a floor or a ceiling jumps: it has one value there and the next one beside them. At
    other numbers a rounded point may lie on either side.
    """
    calls = (part for side in (left, right) for part in walk(side) if isinstance(part, Call))
    inside = (call.arguments[0] for call in calls if call.function in ("floor", "ceil"))
    for argument in itertools.islice(inside, MAX_CORNERS):
        for level in (1, 2, 3):
            for root in _roots(difference(argument, Number(Fraction(level))), name, still):
                if abs(root - round(root)) < 1e-9:
                    yield float(round(root))


def _roots(node: Node, name: str, still: dict[str, float]) -> Iterator[float]:
    if name not in symbols(node):
        return
    before: tuple[float, float] | None = None
    for place in _GRID:
        value = real_value(node, {**still, name: place})
        if value is not None and before is not None and value * before[1] < 0:
            yield _bisected(node, name, still, before[0], place, before[1])
        before = None if value is None else (place, value)


def _bisected(node: Node, name: str, still: dict[str, float], low: float, high: float, at_low: float) -> float:
    for _ in range(60):
        middle = (low + high) / 2
        value = real_value(node, {**still, name: middle})
        if not value:
            return middle
        if value * at_low < 0:
            high = middle
        else:
            low = middle
    return (low + high) / 2


def _touches(node: Node, name: str, still: dict[str, float]) -> Iterator[float]:
    """Where an expression comes closest to zero between two points of a grid, and may touch it."""

    def size(place: float) -> float:
        value = real_value(node, {**still, name: place})
        return math.inf if value is None else abs(value)

    if name not in symbols(node):
        return
    sizes = [(place, size(place)) for place in _FINE_GRID]
    for (low, left), (_, middle), (high, right) in zip(sizes, sizes[1:], sizes[2:], strict=False):
        if middle <= left and middle <= right and math.isfinite(middle) and not left == middle == right:
            yield _lowest(size, low, high)


def _lowest(size: Callable[[float], float], low: float, high: float) -> float:
    most = max(size(low), size(high))
    for step in range(80):
        if step == 24 and size((low + high) / 2) > 1e-3 * most:
            break  # It does not come to zero, not even as an absolute value does.
        third = (high - low) / 3
        if size(low + third) <= size(high - third):
            high -= third
        else:
            low += third
    return (low + high) / 2


def zeros(node: Node) -> Iterator[dict[str, float]]:
    """Points where an expression changes its sign or touches zero, as a square does. One variable moves at a time."""
    names = sorted(symbols(node))
    plain = rebuilt(node, _without_root)
    for name in names[:3]:
        still = {other: 0.731 + 0.37 * place for place, other in enumerate(names) if other != name}
        touched = (root for side in (node, *_sides(node)) for root in _touches(side, name, still))
        for root in (*_roots(node, name, still), *touched, 0.0):
            point = {**still, name: root}
            if abs(real_value(node, point) or 0.0) < 1e-9:
                yield point
        if plain == node:
            continue
        for root in (*_roots(plain, name, still), *_touches(plain, name, still)):
            point, beside = {**still, name: root}, {**still, name: root + 0.5}
            is_zero = abs(real_value(plain, point) or 0.0) < 1e-9
            if is_zero and abs(real_value(node, point) or 0.0) <= 0.1 * abs(real_value(node, beside) or 1.0):
                yield point


def _without_root(part: Node) -> Node | None:
    """What a root is of, which is zero where the root is: near 4, the root of |x - 4| is too large to seem zero."""
    inside: Node | None = None
    if isinstance(part, Call) and part.function in ("sqrt", "root", "abs"):
        inside = part.arguments[0]
    elif isinstance(part, Power) and not symbols(part.exponent) and 0 < (real_value(part.exponent) or 0.0) < 1:
        inside = part.base
    return None if inside is None else rebuilt(inside, _without_root)
