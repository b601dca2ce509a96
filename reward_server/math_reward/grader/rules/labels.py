"""``x = 3`` and ``3``: what stands left of the sign of equality only says what the value is of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from math_reward.grader.rules.rounding import rounds_to
from math_reward.grader.rules.trees import renamed
from math_reward.grader.syntax import (
    Bracketed,
    Call,
    Node,
    Product,
    Ratio,
    Relation,
    Several,
    Symbol,
    symbols,
)

if TYPE_CHECKING:
    from math_reward.grader.compare import Comparison

_COORDINATES = frozenset("xyz")


class Contradiction(ValueError):
    """An answer says two different things at once: ``41 = 42``."""


def without_label(comparison: Comparison, node: Node) -> tuple[Node | None, Node]:
    r"""``x`` and ``3`` of ``x = 3``, ``x = 1 + 2 = 3`` and ``x \approx 3``; the value of a constant chain."""
    if not isinstance(node, Relation):
        return None, node
    if node.operators == ("in",) and isinstance(node.operands[0], Symbol):
        return node.operands[0], node.operands[1]
    if any(operator not in ("=", "~") for operator in node.operators):
        return None, node
    operands = list(node.operands)
    operators = list(node.operators)
    label = None
    while len(operands) > 1 and _is_label(operands[0]) and operators[0] in ("=", "~"):
        label = label or operands[0]
        operands.pop(0)
        operators.pop(0)
    if len(operands) == 1:
        return label, operands[0]
    if label is None and any(symbols(operand) for operand in operands):
        return None, node
    return label, _value_of_chain(comparison, operands, operators)


def _value_of_chain(comparison: Comparison, operands: list[Node], operators: list[str]) -> Node:
    exact_part = operands[: operators.index("~") + 1] if "~" in operators else operands
    value = exact_part[-1]
    for step in exact_part[:-1]:
        if not comparison.same_value(value, step):
            raise Contradiction("it equates two different things")
    for rounded in operands[len(exact_part) :]:
        if not rounds_to(comparison, value, rounded):
            raise Contradiction("its approximation is of something else")
    return value


def _is_label(node: Node) -> bool:
    """What may stand left of "=" to say what the value is of: ``x``, ``f(x)``, ``(x, y)``, ``f'(x)``."""
    if isinstance(node, Call):
        if node.function == "abs":
            return isinstance(node.arguments[0], Product) and _is_label(node.arguments[0])
        return node.function.startswith("apply ") or (node.function == "prime" and _is_label(node.arguments[0]))
    if isinstance(node, Bracketed):
        return (node.left, node.right) == ("(", ")") and all(_is_label(item) for item in node.items)
    if isinstance(node, Ratio):
        return all(_is_label(term) for term in node.terms)
    if isinstance(node, Product):
        # AB and \angle ABC are a length and an angle, xy is a product.
        names = [factor.name if isinstance(factor, Symbol) else "" for factor in node.factors]
        return all(name.isupper() or name == "\\angle" for name in names)
    if isinstance(node, Several):
        return node.kind == "list" and all(_is_label(item) for item in node.items)
    return isinstance(node, Symbol)


def clash(reference: Node, answer: Node) -> bool:
    """``x = 3`` is another line than ``y = 3``."""
    return (
        isinstance(reference, Symbol)
        and isinstance(answer, Symbol)
        and reference.name != answer.name
        and reference.name in _COORDINATES
        and answer.name in _COORDINATES
    )


def are_equations(*nodes: Node) -> bool:
    return all(isinstance(node, Relation) and node.operators == ("=",) for node in nodes)


def with_argument_of(reference: Node, answer: Node, value: Node) -> Node:
    """``value`` of f(x) = value with the variable that the reference has: f(z)."""
    if isinstance(reference, Call) and isinstance(answer, Call) and len(reference.arguments) == len(answer.arguments):
        for new, old in zip(reference.arguments, answer.arguments, strict=True):
            value = renamed(value, new, old)
    return value
