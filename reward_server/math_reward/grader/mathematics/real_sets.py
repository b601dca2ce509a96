r"""Brings sets of real numbers into one form: ``x > 2``, ``(2, \infty)``, ``\{x \mid 2 < x\}``, ``x \ne 3``,
``(-\infty, 3) \cup (3, \infty)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction

from math_reward.grader.errors import TooComplex
from math_reward.grader.mathematics import corners
from math_reward.grader.mathematics.evaluation import real_value
from math_reward.grader.mathematics.intervals import (
    End,
    Interval,
    Intervals,
    NotOrdered,
    complement,
    intersection,
    merged,
)
from math_reward.grader.mathematics.linear import first_degree
from math_reward.grader.notation.exact import exact
from math_reward.grader.notation.syntax import (
    ZERO,
    Applied,
    Bracketed,
    Call,
    Collection,
    Constant,
    Negative,
    Node,
    Number,
    PlusMinus,
    Quotient,
    Relation,
    SetBuilder,
    SetOperation,
    Sum,
    Symbol,
    difference,
    symbols,
    walk,
)
from math_reward.grader.words.vocabulary import INEQUALITIES, MIRRORED

_EVERYTHING: Interval = (End(-math.inf, False), End(math.inf, False))


def is_set_like(node: Node) -> bool:
    """Whether ``node`` can only be a set of reals, and not a tuple, a list or a number."""
    if isinstance(node, (SetOperation, SetBuilder)):
        return True
    if isinstance(node, Relation):
        return any(operator in INEQUALITIES for operator in node.operators)
    if isinstance(node, Bracketed) and len(node.items) == 2:
        mixed = (node.left, node.right) not in (("(", ")"), ("[", "]"))
        return mixed or any(_infinite(item) for item in node.items)
    if isinstance(node, Collection) and node.kind == "or":
        return any(is_set_like(item) for item in node.items)
    if isinstance(node, Collection) and node.kind == "list":
        return all(
            (isinstance(item, Collection) and item.kind == "or" and is_set_like(item))
            or (isinstance(item, Relation) and (is_set_like(item) or item.operators == ("in",)))
            for item in node.items
        )
    return isinstance(node, Constant) and node.name in ("reals", "emptyset")


@dataclass(frozen=True, slots=True)
class RealSet:
    """A set of reals: the numbers in ``intervals`` and in ``domain`` (``reals``, ``integers``, ``naturals`` ...)."""

    intervals: Intervals
    domain: str = "reals"
    variable: str | None = None
    """The name of its elements if it is an inequality: ``x > 2`` is not ``y > 2``."""


def real_set(node: Node) -> RealSet | None:
    """``node`` as a set of reals; None if it is not one, or its ends are not known or have no known order."""
    try:
        return _real_set(node)
    except NotOrdered:
        return None


def _real_set(node: Node) -> RealSet | None:
    if isinstance(node, SetBuilder):
        return _built(node)
    if isinstance(node, Collection) and node.kind == "list":
        return _restricted(node.items)
    parts = intervals(node)
    if parts is None:
        return None
    names = _variables(node)
    if len(names) > 1:
        return None  # x < -1 or y > 4
    return RealSet(parts, variable=names.pop() if names else None)


def _variables(node: Node) -> set[str]:
    """What an inequality, or several, bound: ``x``; y for f(x)."""
    if isinstance(node, Relation):
        return set().union(*(symbols(_as_variable(operand)) for operand in node.operands))
    return set().union(*map(_variables, node.items)) if isinstance(node, Collection) else set()


def _built(node: SetBuilder) -> RealSet | None:
    """A set builder; the domain may stand on either side of the bar."""
    variable, domain = node.variable, "reals"
    if isinstance(variable, Relation) and variable.operators == ("in",):
        domain = variable.operands[1].name if isinstance(variable.operands[1], Constant) else ""
        variable = variable.operands[0]
    if not isinstance(variable, Symbol) or not domain:
        return None
    inner = real_set(node.condition)
    if inner is None or inner.variable not in (None, variable.name):
        return None
    if "reals" not in (domain, inner.domain) and domain != inner.domain:
        return None
    return RealSet(inner.intervals, inner.domain if domain == "reals" else domain)


def _restricted(items: tuple[Node, ...]) -> RealSet | None:
    """Inequalities of one variable that hold together, with or without a domain: ``x > 3, x \\in \\mathbb{Z}``. Two
    that cannot hold together are alternatives: ``x < 1, x > 2``.
    """
    domain, parts = "reals", list[Intervals]()
    names: set[str] = set()
    for item in items:
        names |= symbols(item)
        if isinstance(item, Relation) and item.operators == ("in",) and isinstance(item.operands[1], Constant):
            domain = item.operands[1].name
            continue
        part = intervals(item) if isinstance(item, (Relation, Collection)) and is_set_like(item) else None
        if part is None:
            return None
        parts.append(part)
    if len(names) != 1 or not parts:
        return None
    result = [_EVERYTHING]
    for part in parts:
        result = intersection(result, part)
    if not result and len(parts) == 2:
        result = merged([*parts[0], *parts[1]])
    return RealSet(result, domain, *names)


def same_sets(left: RealSet, right: RealSet, same_end: Callable[[Node, Node], bool]) -> bool:
    """Whether two sets are equal. ``same_end`` compares two ends: floating point alone never decides."""
    if left.domain != right.domain or (
        left.variable is not None and right.variable is not None and left.variable != right.variable
    ):
        return False
    left_ends, right_ends = _ends(left), _ends(right)
    if len(left_ends) != len(right_ends):
        return False
    for a, b in zip(left_ends, right_ends, strict=True):
        if a.closed != b.closed or (a.node is None) != (b.node is None):
            return False
        if a.node is None or b.node is None:
            if a.value != b.value:
                return False
        elif abs(a.value - b.value) > 1e-9 * max(1.0, abs(a.value)) or not same_end(a.node, b.node):
            return False
    return True


def _ends(reals: RealSet) -> list[End]:
    """The ends in order. Those of a set of whole numbers are in the set: x > 2 is x >= 3 there."""
    ends = [end for part in reals.intervals for end in part]
    if reals.domain not in ("integers", "naturals"):
        return ends
    wholes = [first_whole(end, up=index % 2 == 0) for index, end in enumerate(ends)]
    return [
        end if whole is None else End(whole, True, Number(Fraction(whole)))
        for end, whole in zip(ends, wholes, strict=True)
    ]


def first_whole(end: End, *, up: bool) -> int | None:
    """The first whole number inside an end of an interval; None if the end is infinite or not rational."""
    value = None if end.node is None else exact(end.node)
    if value is None:
        return None
    whole = math.ceil(value) if up else math.floor(value)
    return whole if whole != value or end.closed else whole + (1 if up else -1)


def intervals(node: Node) -> Intervals | None:
    """A set of reals without a domain of its own, as intervals; None if it is not one or its ends are not known."""
    parts = _intervals(node)
    return None if parts is None else merged(parts)


def _intervals(node: Node) -> Intervals | None:
    if isinstance(node, Bracketed):
        return _bracketed(node)
    if isinstance(node, Relation):
        return _relation(node)
    if isinstance(node, SetBuilder):
        built = _built(node)
        return None if built is None or built.domain != "reals" else built.intervals
    if isinstance(node, SetOperation):
        return _operation(node)
    if isinstance(node, Collection):
        if node.kind == "or":
            return _together(map(_intervals, node.items))
        return _together(map(_points, node.items))
    if isinstance(node, Constant) and node.name == "reals":
        return [_EVERYTHING]
    if isinstance(node, Constant) and node.name == "emptyset":
        return []
    return _points(node)


def _points(node: Node) -> Intervals | None:
    if isinstance(node, PlusMinus):
        left = node.left or ZERO
        both = [Sum((left, node.right)), difference(left, node.right)]
        return _together(map(_points, both))
    value = real_value(node)
    return None if value is None else [(End(value, True, node), End(value, True, node))]


def _infinite(node: Node) -> int:
    if isinstance(node, Constant) and node.name == "infinity":
        return 1
    return -_infinite(node.operand) if isinstance(node, Negative) else 0


def _end(node: Node, closed: bool) -> End | None:
    if sign := _infinite(node):
        return End(sign * math.inf, False)
    value = real_value(node)
    return None if value is None else End(value, closed, node)


def _bracketed(node: Bracketed) -> Intervals | None:
    if len(node.items) != 2:
        return None
    low = _end(node.items[0], node.left == "[")
    high = _end(node.items[1], node.right == "]")
    if low is None or high is None or low.value > high.value:
        return None
    if low.value == high.value and (low.node is None or high.node is None or not (low.closed and high.closed)):
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
        result = intersection(result, part)
    return result


def _as_variable(node: Node) -> Node:
    """A variable in place of f(x): 0 < f(x) < 1 bounds a value as 0 < y < 1 does, and not x."""
    if not isinstance(node, Applied):
        return node
    return Symbol("y" if node.name == "f" and not node.is_inverse else str(node))


def _inequality(operator: str, left: Node, right: Node, names: set[str]) -> Intervals | None:
    if not symbols(left):
        operator, left, right = MIRRORED.get(operator, operator), right, left
    if isinstance(left, Symbol) and not symbols(right):
        return _side(operator, right)
    if isinstance(left, Call) and left.function == "abs" and not symbols(right):
        return _absolute(operator, left.arguments[0], right, names)
    (name,) = names
    return _linear(operator, difference(left, right), name)


def _linear(operator: str, difference: Node, name: str) -> Intervals | None:
    """The solutions of an inequality whose ``difference`` is of first degree in ``name``; None if it is not."""
    calls = (part for part in walk(difference) if isinstance(part, (Call, Applied)))
    if corners.has_branches(difference) or any(map(symbols, calls)):
        return None
    try:
        line = first_degree(difference, name)
    except TooComplex:
        return None
    if line is None or not (steepness := real_value(line[0])):
        return None
    slope, rest = line
    if steepness < 0:
        operator = MIRRORED.get(operator, operator)
    return _side(operator, Quotient(Negative(rest), slope))


def _absolute(operator: str, inside: Node, bound: Node, names: set[str]) -> Intervals | None:
    """``|inside| < bound`` and the like."""
    limit = real_value(bound)
    if limit is None or limit < 0:
        return None
    above = _inequality(operator, inside, bound, names)
    below = _inequality(MIRRORED.get(operator, operator), inside, Negative(bound), names)
    if above is None or below is None:
        return None
    if operator in ("<", "<=", "!="):
        return intersection(above, below)
    return merged([*above, *below])


def _side(operator: str, bound: Node) -> Intervals | None:
    """The numbers on one side of ``bound``."""
    end = _end(bound, operator in ("<=", ">=", "="))
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


def _together(parts: Iterable[Intervals | None]) -> Intervals | None:
    """The intervals of all parts; None if one of them is not known."""
    result: Intervals = []
    for part in parts:
        if part is None:
            return None
        result += part
    return result


def _operation(node: SetOperation) -> Intervals | None:
    if node.operator == "union":
        return _together(map(_intervals, node.operands))
    parts = [intervals(operand) for operand in node.operands]
    if parts[0] is None:
        return None
    result = parts[0]
    for part in parts[1:]:
        if part is None:
            return None
        result = intersection(result, part if node.operator == "intersection" else complement(part))
    return result
