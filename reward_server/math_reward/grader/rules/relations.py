"""Equations, inequalities and ratios."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from math_reward.grader import numeric
from math_reward.grader.numeric import Unknown
from math_reward.grader.rules.collections import pairwise
from math_reward.grader.rules.trees import substituted
from math_reward.grader.syntax import (
    ClockTime,
    Negative,
    Node,
    Number,
    Product,
    Quotient,
    Ratio,
    Relation,
    Sum,
    Symbol,
    Text,
    symbols,
)
from math_reward.grader.verdict import Stage

if TYPE_CHECKING:
    from math_reward.grader.compare import Comparison

_INEQUALITIES = ("<", "<=", ">", ">=", "!=")
_FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}


def same_relation(comparison: Comparison, reference: Node, answer: Node) -> bool:
    comparison.reached(Stage.STRUCTURE)
    if not isinstance(reference, Relation) or not isinstance(answer, Relation):
        return False
    if len(reference.operators) != 1 or len(answer.operators) != 1:
        if reference.operators == answer.operators:
            return pairwise(comparison, reference.operands, answer.operands)
        flipped = tuple(_FLIPPED.get(operator, operator) for operator in reversed(answer.operators))
        return reference.operators == flipped and pairwise(comparison, reference.operands, answer.operands[::-1])
    operator, other = reference.operators[0], answer.operators[0]
    operands, others = reference.operands, answer.operands
    if operator != other:
        if _FLIPPED.get(operator) != other:
            return False
        others = (others[1], others[0])
    if operator not in ("=", *_INEQUALITIES):
        return pairwise(comparison, operands, others)
    comparison.reached(Stage.NUMERIC)
    try:
        left = Sum((operands[0], Negative(operands[1])))
        right = Sum((others[0], Negative(others[1])))
        verdict = numeric.proportional(left, right, positive=operator not in ("=", "!="))
    except Unknown:
        return pairwise(comparison, operands, others)
    return bool(verdict) or (
        operator == "=" and (_solves(comparison, answer, reference) or _solves(comparison, reference, answer))
    )


def _solves(comparison: Comparison, solution: Relation, equation: Relation) -> bool:
    """Whether ``y = 6/x`` is what ``xy = 6``, of first degree in y, is solved for y."""
    variable, value = solution.operands
    if not isinstance(variable, Symbol) or variable.name in symbols(value):
        return False
    left = Sum((equation.operands[0], Negative(equation.operands[1])))
    zero = Number(Fraction(0))

    def at(place: Node) -> Node:
        return substituted(left, variable.name, place)

    step = Sum((at(Number(Fraction(1))), Negative(at(zero))))
    double_step = Sum((at(Number(Fraction(2))), Negative(at(zero))))
    is_linear = numeric.same_function(Product((Number(Fraction(2)), step)), double_step)
    if not is_linear or numeric.same_function(step, zero):
        return False
    return bool(numeric.same_function(at(value), zero))


def same_ratio(comparison: Comparison, reference: Node, answer: Node) -> bool:
    if isinstance(reference, ClockTime) and isinstance(answer, ClockTime):
        return reference.seconds == answer.seconds
    left, right = _terms(reference), _terms(answer)
    if len(left) != len(right) or len(left) < 2:
        if len(left) > 2 or len(right) > 2 or len(left) == len(right):
            return False
        # 3:1 is 3.
        return comparison.same_value(_as_quotient(left), _as_quotient(right))
    # 2:4 is 1:2.
    return all(
        comparison.same_value(Product((left[0], b)), Product((a, right[0])))
        for a, b in zip(left[1:], right[1:], strict=True)
    )


def _terms(node: Node) -> tuple[Node, ...]:
    if isinstance(node, ClockTime):
        return () if node.as_ratio is None else node.as_ratio.terms
    return node.terms if isinstance(node, Ratio) else (node,)


def _as_quotient(terms: tuple[Node, ...]) -> Node:
    return Quotient(terms[0], terms[1]) if len(terms) == 2 else terms[0] if terms else Text("")


def has_ratio(reference: Node, answer: Node) -> bool:
    return isinstance(reference, (ClockTime, Ratio)) or isinstance(answer, (ClockTime, Ratio))


def has_relation(reference: Node, answer: Node) -> bool:
    return isinstance(reference, Relation) or isinstance(answer, Relation)
