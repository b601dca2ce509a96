"""Unions of intervals: what two have in common, what one leaves out, and which of their ends are the same."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

from math_reward.grader.errors import TooComplex, Undefined
from math_reward.grader.mathematics.numeric import Unknown, same_constant
from math_reward.grader.notation.syntax import Node


@dataclass(frozen=True, slots=True)
class End:
    """An end of an interval: its value as a float, whether it is in the interval, and its tree (None for infinity)."""

    value: float
    closed: bool
    node: Node | None = None


Interval = tuple[End, End]
Intervals = list[Interval]
"""In order, disjoint, and not touching each other."""
_CLOSE = 1e-9
"""Ends that differ by less, absolutely or relatively, are compared exactly."""


class NotOrdered(ValueError):
    """Two different ends are so close that floating point does not say which is the larger."""


def aligned(parts: Intervals) -> Intervals:
    """The intervals, with one float for all ends that are the same number, whatever their trees.

    Raises:
        NotOrdered: two ends are close and not the same.
    """
    ends = sorted((end for part in parts for end in part if end.node is not None), key=lambda end: end.value)
    moved: dict[float, float] = {}
    for before, end in itertools.pairwise(ends):
        if end.value - before.value > _CLOSE * max(1.0, abs(end.value)) or before.node == end.node:
            continue
        assert before.node is not None
        assert end.node is not None
        if not is_same_end(before.node, end.node):
            raise NotOrdered
        moved[end.value] = moved.get(before.value, before.value)
    if all(new == old for old, new in moved.items()):
        return parts
    return [(_moved(low, moved), _moved(high, moved)) for low, high in parts]


def _moved(end: End, moved: dict[float, float]) -> End:
    return replace(end, value=moved[end.value]) if end.value in moved else end


def is_same_end(left: Node, right: Node) -> bool:
    try:
        return same_constant(left, right)
    except (Unknown, Undefined, TooComplex):
        return False


def intersection(left: Intervals, right: Intervals) -> Intervals:
    result: Intervals = []
    both = aligned([*left, *right])
    left, right = both[: len(left)], both[len(left) :]
    for a_low, a_high in left:
        for b_low, b_high in right:
            low = max(a_low, b_low, key=lambda end: (end.value, not end.closed))
            high = min(a_high, b_high, key=lambda end: (end.value, end.closed))
            if low.value < high.value or (low.value == high.value and low.closed and high.closed):
                result.append((low, high))
    return result


def complement(parts: Intervals) -> Intervals:
    result: Intervals = []
    low = End(-math.inf, False)
    for start, end in parts:
        if low.value < start.value or (low.value == start.value and low.closed and not start.closed):
            result.append((low, End(start.value, not start.closed, start.node)))
        low = End(end.value, not end.closed, end.node)
    if low.value < math.inf:
        result.append((low, End(math.inf, False)))
    return result


def merged(parts: Intervals) -> Intervals:
    result: Intervals = []
    for low, high in sorted(aligned(parts), key=lambda part: (part[0].value, not part[0].closed)):
        if result:
            last_low, last = result[-1]
            if low.value < last.value or (low.value == last.value and (low.closed or last.closed)):
                if (high.value, high.closed) > (last.value, last.closed):
                    result[-1] = (last_low, high)
                continue
        result.append((low, high))
    return result
