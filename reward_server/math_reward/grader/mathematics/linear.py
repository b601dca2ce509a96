"""Expressions of first degree in a variable."""

from __future__ import annotations

from math_reward.grader.errors import Undefined
from math_reward.grader.mathematics.evaluation import Unknown
from math_reward.grader.mathematics.numeric import same_function
from math_reward.grader.notation.syntax import ONE, ZERO, Negative, Node, Product, Sum, Symbol, substituted


def first_degree(node: Node, name: str) -> tuple[Node, Node] | None:
    """The factor of the variable ``name`` in ``node``, and the rest; None if the degree is another, or not known.

    It is of first degree if a line through two of its points goes through all others.

    Raises:
        TooComplex: a number is too big to compute.
    """
    rest = substituted(node, name, ZERO)
    slope = Sum((substituted(node, name, ONE), Negative(rest)))
    try:
        if not same_function(node, Sum((rest, Product((slope, Symbol(name)))))) or same_function(slope, ZERO):
            return None
    except (Unknown, Undefined):
        return None
    return slope, rest
