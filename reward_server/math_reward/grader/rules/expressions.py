r"""Compares single expressions: exactly, at points, or by SymPy.

Those with an arbitrary constant too, such as ``\ln|x| + C`` and ``\ln|2x| + C``, and integrals.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from fractions import Fraction

from math_reward.grader.errors import Undefined
from math_reward.grader.mathematics import numeric, symbolic
from math_reward.grader.mathematics.calculus import NoDerivative, derivative, integrand
from math_reward.grader.mathematics.numeric import Unknown
from math_reward.grader.notation.declarations import Domain
from math_reward.grader.notation.exact import exact
from math_reward.grader.notation.syntax import (
    EXPRESSIONS,
    ZERO,
    Applied,
    BigOperator,
    Call,
    Constant,
    Negative,
    Node,
    Number,
    Power,
    Product,
    Quantity,
    Quotient,
    Sum,
    Symbol,
    bound_by,
    difference,
    substituted,
    symbols,
    walk,
)
from math_reward.grader.rules.collections import same_items
from math_reward.grader.rules.comparison import Comparison
from math_reward.grader.rules.rounding import close
from math_reward.grader.rules.trees import as_variables, parts
from math_reward.grader.verdict import Stage


def same_expression(comparison: Comparison, reference: Node, answer: Node) -> bool:
    if not isinstance(reference, EXPRESSIONS) or not isinstance(answer, EXPRESSIONS):
        return False
    if (same := _same_angles(reference, answer)) is not None:
        return same
    reference, answer = _without_degrees(reference, answer)
    left, right = exact(reference), exact(answer)
    if left is not None and right is not None:
        return left == right or close(comparison, reference, answer, left, right)
    names, others = symbols(reference), symbols(answer)
    comparison.reached(Stage.NUMERIC)
    try:
        if not names and not others:
            if numeric.same_constant(reference, answer):
                return True
            return close(comparison, reference, answer, left, right)
        verdict = numeric.same_function(reference, answer)
    except Unknown:
        plain = as_variables(reference, answer)
        if plain != (reference, answer) and _same_at_points(*plain):
            return True
        if any(isinstance(part, BigOperator) for node in (reference, answer) for part in walk(node)):
            comparison.reached(Stage.SYMPY)
            if (same := symbolic.same_series(reference, answer)) is not None:
                return same
            return _same_structure(comparison, reference, answer) or symbolic.equal(reference, answer)
        comparison.reached(Stage.STRUCTURE)
        return _same_structure(comparison, reference, answer)
    if verdict is None:
        comparison.reached(Stage.SYMPY)
        return symbolic.equal(reference, answer)
    return verdict


def _without_degrees(reference: Node, answer: Node) -> tuple[Node, Node]:
    r"""Both, without the signs of degrees if only one of two sums has them: ``180^\circ - 2x`` is ``180 - 2x``."""
    if isinstance(reference, Sum) and isinstance(answer, Sum):
        has, others = (any(map(_is_in_degrees, side.terms)) for side in (reference, answer))
        if has != others and Constant("pi") not in walk(answer if has else reference):
            return Sum(tuple(map(_bare, reference.terms))), Sum(tuple(map(_bare, answer.terms)))
    return reference, answer


def _is_in_degrees(node: Node) -> bool:
    return _bare(node) is not node


def _bare(node: Node) -> Node:
    if isinstance(node, Negative):
        bare = _bare(node.operand)
        return node if bare is node.operand else Negative(bare)
    return node.value if isinstance(node, Quantity) and node.unit == "degree" else node


def _same_angles(reference: Node, answer: Node) -> bool | None:
    """Whether both name the same angle: ABC is CBA, and not BAC. None if one is not the name of an angle."""
    names = [
        [factor.name for factor in node.factors[1:] if isinstance(factor, Symbol)]
        for node in (reference, answer)
        if isinstance(node, Product) and node.factors[0] == Symbol("\\angle")
    ]
    return None if len(names) != 2 else names[0] in (names[1], names[1][::-1])


def _same_at_points(reference: Node, answer: Node) -> bool:
    try:
        return numeric.same_function(reference, answer) is True
    except Unknown:
        return False


def _same_structure(comparison: Comparison, reference: Node, answer: Node) -> bool:
    """Whether two expressions without a value at points have the same operator and the same parts."""
    if type(reference) is not type(answer):
        return False
    if isinstance(reference, (Sum, Product)):
        a, b = parts(reference), parts(answer)
        return same_items(comparison, a, b)
    if isinstance(reference, BigOperator) and isinstance(answer, BigOperator):
        if "int" in reference.name and bound_by(reference) != bound_by(answer):
            return False  # The differential of x^2 is not that of x.
        same_bounds = reference.lower == answer.lower and reference.upper == answer.upper
        return reference.name == answer.name and same_bounds and comparison.same_value(reference.body, answer.body)
    if isinstance(reference, Call) and isinstance(answer, Call):
        return reference.function == answer.function and comparison.same_in_order(
            reference.arguments, answer.arguments
        )
    if isinstance(reference, Applied) and isinstance(answer, Applied):
        same_name = (reference.name, reference.is_inverse) == (answer.name, answer.is_inverse)
        return same_name and comparison.same_in_order(reference.arguments, answer.arguments)
    if isinstance(reference, (Negative, Quotient, Power)):
        pairs = [(getattr(reference, f.name), getattr(answer, f.name)) for f in fields(reference)]
        return all(comparison.same_value(a, b) for a, b in pairs)
    return reference == answer


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
