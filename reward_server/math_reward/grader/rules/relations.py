"""Compares equations, inequalities, congruences and ratios, sets of reals as intervals, and other sets operation by
operation.
"""

from __future__ import annotations

import math
from fractions import Fraction

from math_reward.grader.errors import Undefined
from math_reward.grader.mathematics import corners, numeric
from math_reward.grader.mathematics.linear import first_degree
from math_reward.grader.mathematics.numeric import Unknown
from math_reward.grader.mathematics.real_sets import first_whole, real_set, same_sets
from math_reward.grader.notation.exact import exact
from math_reward.grader.notation.syntax import (
    ZERO,
    Applied,
    Bracketed,
    Call,
    ClockTime,
    Collection,
    Congruence,
    Node,
    Number,
    Product,
    Quantity,
    Quotient,
    Ratio,
    Relation,
    SetBuilder,
    SetOperation,
    Symbol,
    difference,
    substituted,
    symbols,
    walk,
)
from math_reward.grader.rules.collections import same_brackets, same_items
from math_reward.grader.rules.comparison import Comparison
from math_reward.grader.rules.expressions import same_expression
from math_reward.grader.rules.trees import MAX_ITEMS, as_variables, renamed
from math_reward.grader.verdict import Stage
from math_reward.grader.words.vocabulary import INEQUALITIES, MIRRORED

_SYMMETRIC = ("parallel", "perp", "~")
_HUGE = 1e7
MAX_SOLVED = 6


def same_relation(comparison: Comparison, reference: Node, answer: Node) -> bool:
    """Whether two relations have the same solutions: the difference of the sides of one is a constant multiple of the
    other's, or one equation is the other solved for a variable.
    """
    comparison.reached(Stage.STRUCTURE)
    if isinstance(reference, Relation) and not isinstance(answer, Relation):
        return _is_solution(reference, answer)
    if not isinstance(reference, Relation) or not isinstance(answer, Relation):
        return False
    if _has_modulus(reference) != _has_modulus(answer):
        return False
    if len(reference.operators) != 1 or len(answer.operators) != 1:
        if reference.operators == answer.operators:
            return comparison.same_in_order(reference.operands, answer.operands)
        flipped = tuple(MIRRORED.get(operator, operator) for operator in reversed(answer.operators))
        return reference.operators == flipped and comparison.same_in_order(reference.operands, answer.operands[::-1])
    operator, other = reference.operators[0], answer.operators[0]
    operands, others = reference.operands, answer.operands
    if operator != other:
        if MIRRORED.get(operator) != other:
            return False
        others = (others[1], others[0])
    if operator not in ("=", *INEQUALITIES):
        turned = operator in _SYMMETRIC and comparison.same_in_order(operands, others[::-1])
        return turned or comparison.same_in_order(operands, others)
    plain = as_variables(*operands, *others)  # A call of an unknown function such as f'(x) is a variable.
    operands, others = plain[: len(operands)], plain[len(operands) :]
    if symbols(Relation(("=",), operands)) != symbols(Relation(("=",), others)):
        return False  # A variable that only one of them names is free in the other.
    comparison.reached(Stage.NUMERIC)
    try:
        left = difference(*operands)
        right = difference(*others)
        verdict = numeric.proportional(left, right, positive=operator not in ("=", "!="))
    except Unknown:
        return comparison.same_in_order(operands, others)
    if verdict is None and comparison.same_in_order(operands, others):
        return True  # gcd(m, n) = 1 has no values at points
    if verdict or operator != "=":
        return bool(verdict)
    mine, other_equation = Relation(("=",), operands), Relation(("=",), others)
    return _solves(other_equation, mine) or _solves(mine, other_equation) or _same_solved(left, right)


def _same_solved(left: Node, right: Node) -> bool:
    """Whether ``left = 0`` and ``right = 0`` agree when solved for a variable in which both are of first degree.

    Neither may have a solution where the factor of that variable is zero: ``x(y - 6) = 0`` has more than ``y = 6``.
    """
    for name in sorted(symbols(left))[:MAX_SOLVED]:
        parts = [_linear_in(side, name) for side in (left, right)]
        if parts[0] is None or parts[1] is None:
            continue
        (slope, rest), (other_slope, other_rest) = parts[0], parts[1]
        try:
            if not numeric.same_function(Product((rest, other_slope)), Product((other_rest, slope))):
                return False
        except Unknown:
            return False
        return not any(
            _size_at(constant, point) < 1e-9
            for factor, constant in ((slope, rest), (other_slope, other_rest))
            for point in corners.zeros(factor)
        )
    return False


def _linear_in(left: Node, name: str) -> tuple[Node, Node] | None:
    """The factor of ``name`` in ``left``, and the rest; None if ``left`` is not of first degree in ``name``."""
    if any(isinstance(part, (Call, Applied)) and name in symbols(part) for part in walk(left)):
        return None
    line = first_degree(left, name)
    return None if line is None or numeric.same_function(line[0], ZERO) else line


def _size_at(node: Node, point: dict[str, float]) -> float:
    """How large ``node`` is at a point; infinite if it has no value there."""
    try:
        return abs(numeric.evaluate(node, {**dict.fromkeys(symbols(node), 0.917), **point}))
    except (Undefined, OverflowError):
        return math.inf


def _is_solution(equation: Relation, value: Node) -> bool:
    """Whether ``value`` is the equation's solution for its only variable that ``value`` does not have."""
    if equation.operators != ("=",):
        return False
    missing = symbols(equation) - symbols(value)
    if len(missing) != 1 or not symbols(value) or not symbols(value) <= symbols(equation):
        return False
    return _solves(Relation(("=",), (Symbol(*missing), value)), equation)


def _solves(solution: Relation, equation: Relation) -> bool:
    """Whether ``solution``, such as ``y = 6/x``, is ``equation``, such as ``xy = 6``, solved for y.

    The equation must be of first degree in y, which is checked at points of all signs. Where the factor of y is zero,
    the solution must have no value: ``xy = 6x`` has more solutions than ``y = 6``.
    """
    variable, value = solution.operands
    if not isinstance(variable, Symbol) or variable.name in symbols(value) or variable.name not in symbols(equation):
        return False
    left = difference(*equation.operands)
    line = _linear_in(left, variable.name)
    try:
        if line is None or not numeric.same_function(substituted(left, {variable.name: value}), ZERO):
            return False
    except Unknown:
        return False
    return not any(_size_at(value, point) < _HUGE for point in corners.zeros(line[0]))


# ── congruences ──


def same_congruence(comparison: Comparison, reference: Node, answer: Node) -> bool:
    comparison.reached(Stage.EXACT)
    if not isinstance(reference, Congruence) or not isinstance(answer, Congruence):
        return False  # The modulus is lost, or one too many.
    if not comparison.same_value(reference.modulus, answer.modulus):
        return False
    left, right, modulus = exact(reference.residue), exact(answer.residue), exact(reference.modulus)
    if left is None or right is None or modulus is None or modulus <= 0:
        return comparison.same_value(reference.residue, answer.residue)
    return ((left - right) / modulus).denominator == 1


def _congruent(number: Fraction, congruence: Congruence) -> bool:
    residue, modulus = exact(congruence.residue), exact(congruence.modulus)
    return (
        residue is not None and modulus is not None and modulus > 1 and ((number - residue) / modulus).denominator == 1
    )


def is_remainder(reference: Node, answer: Node) -> bool:
    """Whether the answer says 3 (mod 7) where the reference asks for the remainder, and is 3."""
    if isinstance(answer, Relation) and answer.operators == ("=",):
        named, said = answer.operands
        power = exact(named) if not symbols(named) else None
        if power is not None and isinstance(said, Congruence) and not _congruent(power, said):
            return False
        answer = said
    if not isinstance(reference, Number) or not isinstance(answer, Congruence):
        return False
    value, residue, modulus = reference.value, exact(answer.residue), exact(answer.modulus)
    if modulus is None or modulus < 2 or value.denominator != 1:
        return False
    return value == residue and 0 <= value < modulus


def _has_modulus(node: Relation) -> bool:
    return any(isinstance(operand, Congruence) for operand in node.operands)


# ── ratios ──


def same_ratio(comparison: Comparison, reference: Node, answer: Node) -> bool:
    """Whether two ratios are proportional: 2:4 is 1:2, and 3:1 is 3. Ratios of zeros only are never the same."""
    if isinstance(reference, ClockTime) and isinstance(answer, ClockTime):
        return reference.seconds == answer.seconds or _has_either_half(reference, answer)
    if isinstance(reference, ClockTime) and math.gcd(reference.seconds // 3600, reference.seconds // 60 % 60) > 1:
        return False  # A ratio would be in lowest terms.
    left, right = _terms(reference), _terms(answer)
    if len(left) != len(right) or len(left) < 2:
        one = left[0] if len(left) == 1 else right[0] if len(right) == 1 else None
        if one is None or {len(left), len(right)} != {1, 2} or (isinstance(one, Quantity) and one.unit != "percent"):
            return False  # 2:1 is 2, and not 2 days.
        return comparison.same_value(_as_quotient(left), _as_quotient(right))
    zeros = [comparison.same_value(term, ZERO) for term in left]
    if zeros != [comparison.same_value(ZERO, term) for term in right] or all(zeros):
        return False
    pivot = zeros.index(False)
    return all(
        comparison.same_value(Product((left[pivot], b)), Product((a, right[pivot])))
        for a, b in zip(left, right, strict=True)
    )


def _has_either_half(reference: ClockTime, answer: ClockTime) -> bool:
    """Whether the answer says of which half of the day a time such as 6:00 is, and the reference does not."""
    unsaid = answer.has_half and not reference.has_half and 3600 <= reference.seconds < 13 * 3600
    return unsaid and (reference.seconds - answer.seconds) % (12 * 3600) == 0


def _terms(node: Node) -> tuple[Node, ...]:
    if isinstance(node, ClockTime):
        return () if node.as_ratio is None else node.as_ratio.terms
    return node.terms if isinstance(node, Ratio) else (node,)


def _as_quotient(terms: tuple[Node, ...]) -> Node:
    return Quotient(terms[0], terms[1]) if len(terms) == 2 else terms[0]


def same_set(comparison: Comparison, reference: Node, answer: Node) -> bool:
    """Whether two sets are the same: sets of reals by their ends and domain, other sets operation by operation."""
    comparison.reached(Stage.STRUCTURE)
    for listed, other in ((reference, answer), (answer, reference)):
        written = _written_out(other) if isinstance(listed, Collection) and isinstance(other, SetBuilder) else []
        if written:
            return any(comparison.same_value(elements, listed) for elements in written)
    left, right = real_set(reference), real_set(answer)
    if left is not None and right is not None:
        return same_sets(left, right, lambda a, b: same_expression(comparison, a, b))
    if isinstance(reference, SetOperation) and isinstance(answer, SetOperation):
        if reference.operator != answer.operator:
            return False
        if reference.operator == "difference":
            return comparison.same_in_order(reference.operands, answer.operands)
        return same_items(comparison, reference.operands, answer.operands)
    if isinstance(reference, Bracketed) and isinstance(answer, Bracketed):
        return same_brackets(comparison, reference, answer)
    if isinstance(reference, Relation) and isinstance(answer, Relation):
        return same_relation(comparison, reference, answer)
    if isinstance(reference, SetBuilder) and isinstance(answer, SetBuilder):
        return _same_builders(comparison, reference, answer)
    if isinstance(reference, Collection) and isinstance(answer, Collection):
        return same_items(comparison, reference.items, answer.items)
    return False


def _same_builders(comparison: Comparison, reference: SetBuilder, answer: SetBuilder) -> bool:
    """Whether both have the same elements under the same condition, whatever the variable's name."""
    mine, other = reference.variable, answer.variable
    if isinstance(mine, Symbol) != isinstance(other, Symbol):
        return False
    condition = renamed(answer.condition, [mine], [other])
    return (isinstance(mine, Symbol) or comparison.same(mine, other)) and comparison.same(
        reference.condition, condition
    )


def _written_out(node: SetBuilder) -> list[Collection]:
    """A set of a few whole numbers as a list; a set of natural numbers as two, with and without zero."""
    reals = real_set(node)
    if reals is None or reals.domain not in ("integers", "naturals"):
        return []
    lists: list[Collection] = []
    for least in (0, 1) if reals.domain == "naturals" else (None,):
        numbers: list[int] = []
        for low, high in reals.intervals:
            first, last = first_whole(low, up=True), first_whole(high, up=False)
            first = least if low.node is None else first
            if first is None or last is None:
                return []
            first = first if least is None else max(first, least)
            if not 0 <= last - first < MAX_ITEMS:
                return []
            numbers += range(first, last + 1)
        lists.append(Collection("set", tuple(Number(Fraction(number)) for number in numbers)))
    return lists
