"""Compares sets of reals as intervals, and other sets operation by operation."""

from __future__ import annotations

from fractions import Fraction

from math_reward.grader.mathematics.real_sets import first_whole, real_set, same_sets
from math_reward.grader.notation.syntax import (
    Bracketed,
    Collection,
    Node,
    Number,
    Relation,
    SetBuilder,
    SetOperation,
    Symbol,
)
from math_reward.grader.rules.collections import same_brackets, same_items
from math_reward.grader.rules.comparison import Comparison
from math_reward.grader.rules.expressions import same_expression
from math_reward.grader.rules.relations import same_relation
from math_reward.grader.rules.trees import MAX_ITEMS, renamed
from math_reward.grader.verdict import Stage


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
