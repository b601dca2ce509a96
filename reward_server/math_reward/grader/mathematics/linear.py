"""Expressions of first degree in a variable."""

from __future__ import annotations

from math_reward.grader.errors import Undefined
from math_reward.grader.mathematics.evaluation import Unknown
from math_reward.grader.mathematics.numeric import same_function
from math_reward.grader.notation.syntax import ONE, ZERO, Node, Product, Sum, Symbol, difference, substituted


def first_degree(node: Node, name: str) -> tuple[Node, Node] | None:
    """The factor of the variable ``name`` in ``node``, and the rest; None if the degree is higher, or not known.

    It is at most of first degree if a line through two of its points goes through all others.

    Raises:
        TooComplex: a number is too big to compute.
    """
    x = Symbol(name)
    at_zero, at_one = substituted(node, {name: ZERO}), substituted(node, {name: ONE})
    line = Sum((Product((at_zero, difference(ONE, x))), Product((at_one, x))))
    try:
        return (difference(at_one, at_zero), at_zero) if same_function(node, line) else None
    except (Unknown, Undefined):
        return None
