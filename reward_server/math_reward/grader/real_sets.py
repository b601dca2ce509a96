r"""Sets of real numbers in one form, however they are written: ``x > 2``, ``(2, \infty)``, ``\{x \mid 2 < x\}``,
``x \ne 3``, ``(-\infty, 3) \cup (3, \infty)``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from math_reward.grader.numeric import Unknown, constant, evaluate
from math_reward.grader.syntax import (
    Bracketed,
    Call,
    Constant,
    Negative,
    Node,
    Number,
    PlusMinus,
    Relation,
    SetBuilder,
    SetOperation,
    Several,
    Sum,
    Symbol,
    symbols,
)


@dataclass(frozen=True, slots=True)
class End:
    """An end of an interval: where, whether it belongs to it, and as it was written (None where it was solved for)."""

    value: float
    closed: bool
    node: Node | None = None


Interval = tuple[End, End]
Intervals = list[Interval]
"""In order, disjoint, not touching."""

_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_EVERYTHING: Interval = (End(-math.inf, False), End(math.inf, False))


def is_set_like(node: Node) -> bool:
    """True where ``node`` can only be meant as a set of reals, and not as a tuple, a list or a number."""
    if isinstance(node, (SetOperation, SetBuilder)):
        return True
    if isinstance(node, Relation):
        return any(operator in _MIRRORED or operator == "!=" for operator in node.operators)
    if isinstance(node, Bracketed) and len(node.items) == 2:
        mixed = (node.left, node.right) not in (("(", ")"), ("[", "]"))
        return mixed or any(_infinite(item) for item in node.items)
    if isinstance(node, Several) and node.kind == "or":
        return any(is_set_like(item) for item in node.items)
    return isinstance(node, Constant) and node.name in ("reals", "emptyset")


def intervals(node: Node) -> Intervals | None:
    """``node`` as intervals, or None where it is no such set or its ends are not known."""
    found = _intervals(node)
    return None if found is None else _merged(found)


def _intervals(node: Node) -> Intervals | None:
    if isinstance(node, Bracketed):
        return _bracketed(node)
    if isinstance(node, Relation):
        return _relation(node)
    if isinstance(node, SetBuilder):
        variable = node.variable
        if isinstance(variable, Relation) and variable.operators == ("in",):
            variable = variable.operands[0]
        return intervals(node.condition) if isinstance(variable, Symbol) else None
    if isinstance(node, SetOperation):
        return _operation(node)
    if isinstance(node, Several):
        if node.kind == "or":
            return _union(node.items)
        points: Intervals = []
        for item in node.items:
            found = _points(item)
            if found is None:
                return None
            points += found
        return points
    if isinstance(node, Constant) and node.name == "reals":
        return [_EVERYTHING]
    if isinstance(node, Constant) and node.name == "emptyset":
        return []
    return _points(node)


def _points(node: Node) -> Intervals | None:
    if isinstance(node, PlusMinus):
        left = node.left or Number(Fraction(0))
        both = [Sum((left, node.right)), Sum((left, Negative(node.right)))]
        found = [_points(side) for side in both]
        return None if any(side is None for side in found) else [p for side in found for p in side or []]
    value = constant(node)
    return None if value is None else [(End(value, True, node), End(value, True, node))]


def _infinite(node: Node) -> int:
    if isinstance(node, Constant) and node.name == "infinity":
        return 1
    return -_infinite(node.operand) if isinstance(node, Negative) else 0


def _end(node: Node, closed: bool) -> End | None:
    if sign := _infinite(node):
        return End(sign * math.inf, False)
    value = constant(node)
    return None if value is None else End(value, closed, node)


def _bracketed(node: Bracketed) -> Intervals | None:
    if len(node.items) != 2:
        return None
    low = _end(node.items[0], node.left == "[")
    high = _end(node.items[1], node.right == "]")
    if low is None or high is None or low.value > high.value:
        return None
    return [(low, high)]


def _relation(node: Relation) -> Intervals | None:
    if node.operators == ("in",):
        return _intervals(node.operands[1]) if type(node.operands[0]) is Symbol else None
    operands = [_as_variable(operand) for operand in node.operands]
    names = set().union(*map(symbols, operands))
    if len(names) != 1:
        return None
    result: Intervals = [_EVERYTHING]
    for operator, left, right in zip(node.operators, operands, operands[1:], strict=False):
        part = _inequality(operator, left, right, names)
        if part is None:
            return None
        result = _intersection(result, part)
    return result


def _as_variable(node: Node) -> Node:
    """0 < f(x) < 1 is about a value as 0 < y < 1 is."""
    return Symbol(str(node)) if isinstance(node, Call) and node.function.startswith("apply ") else node


def _inequality(operator: str, left: Node, right: Node, names: set[str]) -> Intervals | None:
    if isinstance(left, Symbol) and not symbols(right):
        return _side(operator, _end(right, operator in ("<=", ">=", "=")))
    if isinstance(left, Call) and left.function == "abs" and not symbols(right):
        return _absolute(operator, left.arguments[0], right, names)
    if isinstance(right, Call) and right.function == "abs" and not symbols(left):
        return _absolute(_MIRRORED.get(operator, operator), right.arguments[0], left, names)
    if isinstance(right, Symbol) and not symbols(left):
        return _side(_MIRRORED.get(operator, operator), _end(left, operator in ("<=", ">=", "=")))
    (name,) = names
    try:
        at = [float(_difference(left, right, name, x).real) for x in (0.0, 1.0, 3.0)]
    except (Unknown, ArithmeticError):
        return None
    slope = at[1] - at[0]
    if slope == 0 or abs(at[2] - at[0] - 3 * slope) > 1e-9 * max(1.0, *map(abs, at)):
        return None
    if slope < 0:
        operator = _MIRRORED.get(operator, operator)
    return _side(operator, End(-at[0] / slope, operator in ("<=", ">=", "=")))


def _absolute(operator: str, inside: Node, bound: Node, names: set[str]) -> Intervals | None:
    """``|inside| < bound`` and the like."""
    if (constant(bound) or -1) < 0:
        return None
    above = _inequality(operator, inside, bound, names)
    below = _inequality(_MIRRORED.get(operator, operator), inside, Negative(bound), names)
    if above is None or below is None:
        return None
    if operator in ("<", "<=", "!="):
        return _intersection(above, below)
    return _merged([*above, *below])


def _difference(left: Node, right: Node, name: str, x: float) -> complex:
    return complex(evaluate(left, {name: x}) - evaluate(right, {name: x}))


def _side(operator: str, end: End | None) -> Intervals | None:
    if end is None:
        return None
    if operator in ("<", "<="):
        return [(End(-math.inf, False), end)]
    if operator in (">", ">="):
        return [(end, End(math.inf, False))]
    if operator == "=":
        return [(end, end)]
    if operator == "!=":
        hole = End(end.value, False, end.node)
        return [(End(-math.inf, False), hole), (hole, End(math.inf, False))]
    return None


def _union(nodes: tuple[Node, ...]) -> Intervals | None:
    result: Intervals = []
    for node in nodes:
        part = _intervals(node)
        if part is None:
            return None
        result += part
    return result


def _operation(node: SetOperation) -> Intervals | None:
    if node.operator == "union":
        return _union(node.operands)
    parts = [intervals(operand) for operand in node.operands]
    if parts[0] is None:
        return None
    result = parts[0]
    for part in parts[1:]:
        if part is None:
            return None
        result = _intersection(result, part if node.operator == "intersection" else _complement(part))
    return result


def _intersection(left: Intervals, right: Intervals) -> Intervals:
    result: Intervals = []
    for a_low, a_high in left:
        for b_low, b_high in right:
            low = max(a_low, b_low, key=lambda end: (end.value, not end.closed))
            high = min(a_high, b_high, key=lambda end: (end.value, end.closed))
            if low.value < high.value or (low.value == high.value and low.closed and high.closed):
                result.append((low, high))
    return result


def _complement(parts: Intervals) -> Intervals:
    result: Intervals = []
    low = End(-math.inf, False)
    for start, end in parts:
        if low.value < start.value or (low.value == start.value and low.closed and not start.closed):
            result.append((low, End(start.value, not start.closed, start.node)))
        low = End(end.value, not end.closed, end.node)
    if low.value < math.inf:
        result.append((low, End(math.inf, False)))
    return result


def _merged(parts: Intervals) -> Intervals:
    result: Intervals = []
    for low, high in sorted(parts, key=lambda part: (part[0].value, not part[0].closed)):
        if result:
            last_low, last = result[-1]
            if low.value < last.value or (low.value == last.value and (low.closed or last.closed)):
                if (high.value, high.closed) > (last.value, last.closed):
                    result[-1] = (last_low, high)
                continue
        result.append((low, high))
    return result
