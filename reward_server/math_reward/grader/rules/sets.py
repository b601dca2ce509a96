"""Sets of reals, as intervals; other sets, operation by operation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from math_reward.grader.real_sets import Intervals, intervals, is_set_like
from math_reward.grader.rules.collections import pairwise, same_brackets, same_items
from math_reward.grader.rules.expressions import same_expression
from math_reward.grader.rules.relations import same_relation
from math_reward.grader.rules.trees import renamed
from math_reward.grader.syntax import (
    Bracketed,
    Node,
    Relation,
    SetBuilder,
    SetOperation,
    Several,
)
from math_reward.grader.verdict import Stage

if TYPE_CHECKING:
    from math_reward.grader.compare import Comparison


def same_set(comparison: Comparison, reference: Node, answer: Node) -> bool:
    comparison.reached(Stage.STRUCTURE)
    left, right = intervals(reference), intervals(answer)
    if left is not None and right is not None:
        return _same_intervals(comparison, left, right)
    if isinstance(reference, SetOperation) and isinstance(answer, SetOperation):
        if reference.operator != answer.operator:
            return False
        if reference.operator == "difference":
            return pairwise(comparison, reference.operands, answer.operands)
        return same_items(comparison, reference.operands, answer.operands)
    if isinstance(reference, Bracketed) and isinstance(answer, Bracketed):
        return same_brackets(comparison, reference, answer)
    if isinstance(reference, Relation) and isinstance(answer, Relation):
        return same_relation(comparison, reference, answer)
    if isinstance(reference, SetBuilder) and isinstance(answer, SetBuilder):
        condition = renamed(answer.condition, reference.variable, answer.variable)
        return comparison.same(reference.condition, condition)
    if isinstance(reference, Several) and isinstance(answer, Several):
        return same_items(comparison, reference.items, answer.items)
    return False


def _same_intervals(comparison: Comparison, left: Intervals, right: Intervals) -> bool:
    if len(left) != len(right):
        return False
    for pair in zip(left, right, strict=True):
        for a, b in zip(*pair, strict=True):
            if a.closed != b.closed:
                return False
            if a.value != b.value:
                if math.isinf(a.value) or math.isinf(b.value):
                    return False
                if abs(a.value - b.value) > 1e-9 * max(1.0, abs(a.value)):
                    return False
                if a.node and b.node and not same_expression(comparison, a.node, b.node):
                    return False
    return True


def has_set(reference: Node, answer: Node) -> bool:
    return is_set_like(reference) or is_set_like(answer)
