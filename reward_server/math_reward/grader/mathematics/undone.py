"""Finds the operations that an answer leaves undone."""

from __future__ import annotations

from fractions import Fraction

from math_reward.grader.notation.syntax import (
    BigOperator,
    Call,
    Matrix,
    Negative,
    Node,
    Number,
    Power,
    Product,
    Quotient,
    Relation,
    Sum,
    walk,
)

_MATRIX_FUNCTIONS = {"det", "tr"}


def undone(node: Node) -> set[str]:
    """The kinds of operations in ``node`` that a final answer must not leave undone: ``sum``, ``int``, ``matrix`` ...

    The last part of a calculation ``a = b = c`` is the answer. Factorials, binomials, powers, roots, logarithms and
    trigonometry of constants are closed forms.
    """
    if isinstance(node, Relation) and set(node.operators) <= {"=", "~"}:
        node = node.operands[-1]
    kinds: set[str] = set()
    parts = list(walk(node))
    if not any(isinstance(part, (BigOperator, Matrix, Call)) for part in parts):
        return kinds
    for part in parts:
        if isinstance(part, BigOperator):
            kinds.add(part.name)
        elif isinstance(part, Call):
            if part.function == "derivative by":
                kinds.add("derivative")
            elif part.function in _MATRIX_FUNCTIONS and _has_matrix(part):
                kinds.add("matrix")
        elif isinstance(part, (Sum, Product)):
            operands = part.terms if isinstance(part, Sum) else part.factors
            if sum(map(_has_matrix, operands)) > 1:
                kinds.add("matrix")
        elif isinstance(part, Power) and _has_matrix(part.base):
            kinds.add("matrix")
    return kinds


def _has_matrix(node: Node) -> bool:
    return any(isinstance(part, Matrix) for part in walk(node))


def is_operation(node: Node) -> bool:
    """Whether ``node`` leaves anything to calculate: a number in lowest terms does not."""
    if isinstance(node, Relation) and len(node.operators) == 1:
        return is_operation(node.operands[-1])
    if isinstance(node, Negative):
        return is_operation(node.operand)
    if isinstance(node, (Sum, Product, Power, Call, BigOperator)):
        return True
    return isinstance(node, Quotient) and not in_lowest_terms(node)


def in_lowest_terms(node: Node) -> bool:
    """Whether ``node`` is an integer, a decimal or a fraction in lowest terms, with or without a sign."""
    if isinstance(node, Relation) and node.operators in (("=",), ("~",)):
        return in_lowest_terms(node.operands[-1])
    if isinstance(node, Negative):
        return in_lowest_terms(node.operand)
    if isinstance(node, Number):
        return True
    if not isinstance(node, Quotient):
        return False
    above, below = node.numerator, node.denominator
    if isinstance(above, Negative):
        above = above.operand
    if not isinstance(above, Number) or not isinstance(below, Number) or (above.places, below.places) != (None, None):
        return False
    return below.value > 1 and Fraction(above.value, below.value).denominator == below.value
