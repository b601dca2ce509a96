r"""Compares expressions with an arbitrary constant, such as ``\ln|x| + C`` and ``\ln|2x| + C``, and integrals."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

from math_reward.grader.errors import Undefined
from math_reward.grader.mathematics import numeric
from math_reward.grader.mathematics.calculus import NoDerivative, derivative, integrand
from math_reward.grader.mathematics.numeric import Unknown
from math_reward.grader.notation.declarations import Domain
from math_reward.grader.notation.syntax import (
    ZERO,
    BigOperator,
    Node,
    Number,
    Quantity,
    Sum,
    Symbol,
    difference,
    substituted,
    symbols,
    walk,
)
from math_reward.grader.rules.comparison import Comparison
from math_reward.grader.verdict import Stage

CONSTANT = re.compile(r"[CcK](?:_\d)?")
OF_INTEGRATION = re.compile(r"C(?:_\d)?")
"""Names of constants that are arbitrary wherever they are a term; c and K may be given, as in the line y = x + c."""
CONTINUOUS = ("", "reals", "complexes")
_VARIABLE = re.compile(r"[p-z]|\\(?:theta|phi|tau)")
_PLACES = (Fraction(1, 2), Fraction(2), Fraction(5), Fraction(-3, 2))


def has_integral(reference: Node, answer: Node) -> bool:
    return integrand(reference) is not None and not any(isinstance(part, BigOperator) for part in walk(answer))


def same_integral(comparison: Comparison, reference: Node, answer: Node) -> bool:
    """Whether the answer has an arbitrary constant, and the integrand as its derivative."""
    comparison.reached(Stage.NUMERIC)
    integral = integrand(reference)
    assert integral is not None
    under, name = integral
    if constant_of(answer) is None or any(isinstance(part, Quantity) for part in walk(answer)):
        return False
    try:
        return numeric.same_function(under, derivative(answer, name)) is True
    except (NoDerivative, Unknown, Undefined):
        return False


def same_up_to_constant(
    reference: Node, answer: Node, free: Mapping[str, Domain], domains: Mapping[str, Domain]
) -> bool:
    """Whether both have an arbitrary constant as a term, and the rest of both differs only by a constant.

    The reference's is arbitrary if it is a C or among ``free``, the parameters with their ranges; ``domains`` are the
    ranges in the answer.
    """
    mine, theirs = constant_of(reference), constant_of(answer)
    if mine is None or theirs is None or domains.get(theirs, "") not in CONTINUOUS:
        return False
    if free.get(mine, "" if OF_INTEGRATION.fullmatch(mine) else None) not in CONTINUOUS:
        return False
    left, right = substituted(reference, {mine: ZERO}), substituted(answer, {theirs: ZERO})
    names = symbols(left)
    if names != symbols(right) or not names or not all(_VARIABLE.fullmatch(name) for name in names):
        return False
    for place in _PLACES:
        try:
            sides = [
                difference(side, substituted(side, dict.fromkeys(names, Number(place)))) for side in (left, right)
            ]
            numeric.evaluate(sides[0], dict.fromkeys(names, 0.71))
            return numeric.same_function(*sides) is True
        except (Undefined, OverflowError):
            continue
        except Unknown:
            return False
    return False


def constant_of(node: Node) -> str | None:
    """The only arbitrary constant of ``node``, if it is a term; else None."""
    names = [name for name in symbols(node) if CONSTANT.fullmatch(name)]
    if len(names) != 1:
        return None
    try:
        is_term = numeric.same_function(node, Sum((substituted(node, {names[0]: ZERO}), Symbol(names[0]))))
    except (Unknown, Undefined):
        return None
    return names[0] if is_term else None
