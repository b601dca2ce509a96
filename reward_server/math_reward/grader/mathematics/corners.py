r"""Finds where a function may change its formula: the corners of absolute values, roots, maxima and the like.

Two expressions that agree at ordinary points may differ behind a corner: ``x + \max(0, x - 100)`` is x up to 100.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from math_reward.grader.mathematics.evaluation import real_value
from math_reward.grader.notation.syntax import Call, Negative, Node, Number, Power, difference, symbols, walk
from math_reward.grader.words.functions import known

MAX_POINTS = 48
MAX_CORNERS = 12

_SCALES = (-4.1e5, -731.77, -41.3, 38.9, 1213.1, 7.7e5)
_GRID = sorted(sign * 1.37 * 2.0**power for power in range(-8, 34, 2) for sign in (-1, 1))


def has_steps(node: Node) -> bool:
    """Whether ``node`` jumps, as a floor or a remainder does."""
    return _breaks(node, "step")


def has_branches(node: Node) -> bool:
    """Whether ``node`` has different formulas on different sides of some point."""
    return _breaks(node, "step", "corner", "branch") or any(
        isinstance(part, Power) and not _whole(part.exponent) and symbols(part.base) for part in walk(node)
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
        corners = sorted({round(root, 12) for switch in switches for root in _roots(switch, name, still)})
        between = [(a + b) / 2 for a, b in itertools.pairwise(corners)]
        beside = [corner + step * (1 + abs(corner)) for corner in corners for step in (-1e-3, 1e-3)]
        places = [*_SCALES, *corners, *between, *beside]
        samples += [{**still, name: place} for place in places[:MAX_POINTS]]
    return samples


def _switches(node: Node) -> Iterator[Node]:
    """The expressions that change their sign at a corner."""
    for part in walk(node):
        if isinstance(part, Call) and known(part.function).breaks == "corner" and symbols(part):
            if part.function in ("max", "min"):
                for a, b in itertools.pairwise(part.arguments):
                    yield difference(a, b)
            else:
                yield part.arguments[0]


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


def zeros(node: Node) -> Iterator[dict[str, float]]:
    """Points where an expression changes its sign or is zero. One variable moves at a time."""
    names = sorted(symbols(node))
    values = {real_value(node, dict.fromkeys(names, place)) for place in (0.31, -1.7, 2.9)}
    if len(values) == 1 and None not in values:
        return  # It is a constant.
    for name in names[:3]:
        still = {other: 0.731 + 0.37 * place for place, other in enumerate(names) if other != name}
        for root in (*_roots(node, name, still), 0.0):
            point = {**still, name: root}
            if abs(real_value(node, point) or 0.0) < 1e-9:
                yield point
