"""Compares words."""

from __future__ import annotations

from math_reward.grader.notation.syntax import Constant, Node, Product, Symbol, Text
from math_reward.grader.rules.comparison import Comparison
from math_reward.grader.verdict import Stage


def words_of(node: Node) -> str | None:
    """The words of a node; a product of letters may be a word without ``\\text``."""
    if isinstance(node, Text):
        return node.text
    if isinstance(node, Product) and all(isinstance(factor, (Symbol, Constant)) for factor in node.factors):
        return "".join(factor.name for factor in node.factors if isinstance(factor, (Symbol, Constant))).lower()
    return node.name if isinstance(node, Symbol) else None


def same_words(comparison: Comparison, reference: Node, answer: Node) -> bool:
    comparison.reached(Stage.STRUCTURE)
    return words_of(reference) == words_of(answer) is not None
