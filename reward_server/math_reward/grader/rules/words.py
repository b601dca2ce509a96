"""Words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from math_reward.grader.syntax import (
    Node,
    Symbol,
    Text,
)
from math_reward.grader.verdict import Stage

if TYPE_CHECKING:
    from math_reward.grader.compare import Comparison


def words_of(node: Node) -> str | None:
    if isinstance(node, Text):
        return node.text
    return node.name if isinstance(node, Symbol) else None


def has_words(reference: Node, answer: Node) -> bool:
    return isinstance(reference, Text) or isinstance(answer, Text)


def same_words(comparison: Comparison, reference: Node, answer: Node) -> bool:
    comparison.reached(Stage.STRUCTURE)
    return words_of(reference) == words_of(answer) is not None
