"""Values with a unit."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from math_reward.grader.rules.expressions import same_expression
from math_reward.grader.rules.trees import split
from math_reward.grader.syntax import (
    BasedNumber,
    Constant,
    Node,
    Number,
    Product,
    Quantity,
    Quotient,
)
from math_reward.grader.verdict import Stage
from math_reward.grader.vocabulary import SCALES, UNITS

if TYPE_CHECKING:
    from math_reward.grader.compare import Comparison

_KNOWN_UNITS = frozenset(UNITS.values())


def same_quantity(comparison: Comparison, reference: Node, answer: Node) -> bool:
    value, unit = split(reference)
    other, other_unit = split(answer)
    if unit and other_unit:
        if not _same_unit(unit, other_unit):
            scale = _scale(unit, other_unit)
            if scale is not None:
                return comparison.same_value(Product((value, Number(scale))), other)
            if {unit, other_unit} == {"degree", "radian"}:
                return same_expression(comparison, _radians(reference), _radians(answer))
            comparison.reached(Stage.STRUCTURE)
            return False
        return comparison.same_value(value, other)
    if comparison.same_value(value, other):
        return True
    if "percent" in (unit, other_unit):
        return comparison.same_value(_without_percent(reference), _without_percent(answer))
    if "degree" in (unit, other_unit):
        return comparison.same_value(_radians(reference), _radians(answer))
    return False


def _same_unit(unit: str, other: str) -> bool:
    if unit == other:
        return True
    if any(name.partition("^")[0].partition("/")[0] in _KNOWN_UNITS for name in (unit, other)):
        return False
    # A counted thing may be named more or less closely: "lollipops", "lollipop candies".
    stems, others = ({word[:4] for word in name.split() if len(word) > 2} for name in (unit, other))
    return bool(stems & others)


def _scale(unit: str, other: str) -> Fraction | None:
    """How many of ``other`` one ``unit`` is, with the same power of both; None where they measure different things."""
    (name, _, power), (other_name, _, other_power) = unit.partition("^"), other.partition("^")
    kind, size = SCALES.get(name, (name, 0))
    other_kind, other_size = SCALES.get(other_name, (other_name, 0))
    if not size or not other_size or kind != other_kind or power != other_power:
        return None
    return Fraction(size, other_size) ** int(power or 1)


def _radians(node: Node) -> Node:
    if isinstance(node, Quantity) and node.unit == "degree":
        return Quotient(Product((node.value, Constant("pi"))), Number(Fraction(180)))
    return node.value if isinstance(node, Quantity) else node


def _without_percent(node: Node) -> Node:
    if not isinstance(node, Quantity) or node.unit != "percent":
        return node
    if isinstance(node.value, Number):
        number = node.value
        places = None if number.places is None else number.places + 2
        return Number(number.value / 100, places, number.significant)
    return Quotient(node.value, Number(Fraction(100)))


def has_quantity(reference: Node, answer: Node) -> bool:
    return isinstance(reference, Quantity) or isinstance(answer, Quantity)


def is_based(reference: Node, answer: Node) -> bool:
    """The base is like a unit: the question asked for it."""
    return isinstance(reference, BasedNumber) and isinstance(answer, Number)


def same_digits(comparison: Comparison, reference: Node, answer: Node) -> bool:
    assert isinstance(reference, BasedNumber)
    assert isinstance(answer, Number)
    return str(answer.value) == reference.digits
