"""Finds the operations that an answer leaves undone."""

from __future__ import annotations

from fractions import Fraction

from math_reward.grader.notation.syntax import (
    Applied,
    BigOperator,
    Call,
    Collection,
    Matrix,
    Negative,
    Node,
    Number,
    Power,
    Product,
    Quotient,
    Relation,
    Sum,
    Symbol,
    symbols,
    walk,
)

_OF_A_MATRIX = frozenset(["det", "tr", "abs"])
"""Functions of a matrix; a determinant may stand in bars."""
_MARKS = frozenset(["abs", "prime", "overline", "bar", "hat", "vec", "overrightarrow"])
"""What may stand around a name."""


def undone(node: Node) -> set[str]:
    """The kinds of operations in ``node`` that a final answer must not leave undone: ``sum``, ``int``, ``matrix`` ...

    The last part of a calculation ``a = b = c`` is the answer, and its name may stand on either side: ``a = b = x``.
    Factorials, binomials, powers, roots, logarithms and trigonometry of constants are closed forms.
    """
    if isinstance(node, Collection) and node.kind != "set":
        return set().union(*map(undone, node.items))
    if isinstance(node, Relation) and set(node.operators) <= {"=", "~"}:
        return set().union(*map(undone, results(node)))
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
            elif part.function in _OF_A_MATRIX and _has_matrix(part.arguments):
                kinds.add("matrix")
        elif isinstance(part, (Sum, Product)):
            operands = part.terms if isinstance(part, Sum) else part.factors
            if sum(_has_matrix((operand,)) for operand in operands) > 1:
                kinds.add("matrix")
        elif isinstance(part, Power) and _has_matrix((part.base,)):
            kinds.add("matrix")
    return kinds


def results(node: Relation) -> tuple[Node, ...]:
    """The sides of a chain of equations that say its result: the last that is no name; of ``a - x = 0`` both."""
    sides = list(node.operands)
    while len(sides) > 1 and _is_name(sides[-1]):
        sides.pop()
    is_equation = symbols(sides[0]) - symbols(sides[-1]) and not _is_name(sides[0])
    return tuple(sides) if is_equation and len(sides) == 2 else (sides[-1],)


def result(node: Node) -> Node:
    """What an answer says: the last part of a calculation, without its name."""
    return results(node)[-1] if isinstance(node, Relation) and {*node.operators} <= {"=", "~"} else node


def _is_name(node: Node) -> bool:
    """Whether ``node`` names a value: ``S``, ``S_{10}``, ``f(10)``, ``AB``, ``|AB|``."""
    if isinstance(node, Product):
        return all(map(_is_name, node.factors))
    if isinstance(node, Call):
        return node.function in _MARKS and all(map(_is_name, node.arguments))
    return isinstance(node, (Symbol, Applied))


def _has_matrix(nodes: tuple[Node, ...]) -> bool:
    return any(
        isinstance(part, Matrix) or (isinstance(part, Call) and part.function == "diag")
        for node in nodes
        for part in walk(node)
    )


def is_operation(node: Node) -> bool:
    """Whether ``node`` leaves anything to calculate: a number in lowest terms does not."""
    if isinstance(node, Relation) and len(node.operators) == 1:
        return is_operation(node.operands[-1])
    if isinstance(node, Negative):
        return is_operation(node.operand)
    if isinstance(node, (Sum, Product, Power, Call, Applied, BigOperator)):
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
