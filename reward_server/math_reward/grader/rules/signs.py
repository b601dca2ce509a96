r"""Compares ``a \pm b`` as two values."""

from __future__ import annotations

from math_reward.grader.notation.syntax import Node
from math_reward.grader.rules.collections import same_items
from math_reward.grader.rules.comparison import Comparison
from math_reward.grader.rules.trees import has_sign, values


def has_signs(reference: Node, answer: Node) -> bool:
    return has_sign(reference) or has_sign(answer)


def same_signed(comparison: Comparison, reference: Node, answer: Node) -> bool:
    return same_items(comparison, values(reference), values(answer))
