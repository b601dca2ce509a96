"""Lists in any order, tuples in order, matrices entry by entry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from math_reward.grader.exact import exact
from math_reward.grader.rules.labels import without_label
from math_reward.grader.rules.rounding import rounding
from math_reward.grader.rules.trees import MAX_ITEMS, values
from math_reward.grader.syntax import (
    Bracketed,
    Matrix,
    Negative,
    Node,
    Product,
    Quotient,
    Several,
)
from math_reward.grader.verdict import Stage

_COLLECTIONS = (Several, Bracketed, Matrix)

if TYPE_CHECKING:
    from math_reward.grader.compare import Comparison


def same_collection(comparison: Comparison, reference: Node, answer: Node) -> bool:
    comparison.reached(Stage.STRUCTURE)
    if isinstance(reference, Matrix) and isinstance(answer, Matrix):
        if len(reference.rows) != len(answer.rows):
            return False
        return all(pairwise(comparison, a, b) for a, b in zip(reference.rows, answer.rows, strict=True))
    if Matrix in (type(reference), type(answer)):
        left, right = _vector(reference), _vector(answer)
        return left is not None and right is not None and pairwise(comparison, left, right)
    if isinstance(reference, Bracketed) and isinstance(answer, Bracketed):
        return same_brackets(comparison, reference, answer)
    if Bracketed in (type(reference), type(answer)):
        tuple_, other = (reference, answer) if isinstance(reference, Bracketed) else (answer, reference)
        assert isinstance(tuple_, Bracketed)
        if isinstance(other, Several):
            if len(other.items) == 1:
                return _in_order(comparison, reference, answer, other, other.items[0])
            if other.kind == "list":
                pair = (tuple_.items, other.items)
                return pairwise(comparison, *(pair if tuple_ is reference else pair[::-1]))
            return False
        return len(tuple_.items) == 1 and _in_order(comparison, reference, answer, tuple_, tuple_.items[0])
    if isinstance(reference, Several) and isinstance(answer, Several):
        return _same_lists(comparison, reference, answer)
    several = reference if isinstance(reference, Several) else answer
    assert isinstance(several, Several)
    inner = values(several)
    return len(inner) == 1 and _in_order(comparison, reference, answer, several, inner[0])


def _in_order(comparison: Comparison, reference: Node, answer: Node, wrapped: Node, content: Node) -> bool:
    """Compare with ``content`` in the place of ``wrapped``."""
    return comparison.same(content if wrapped is reference else reference, content if wrapped is answer else answer)


def same_brackets(comparison: Comparison, reference: Bracketed, answer: Bracketed) -> bool:
    # [1, 2, 3] is a tuple as (1, 2, 3) is; two items may be an interval, whose brackets matter.
    if len(reference.items) == 2 and (reference.left, reference.right) != (answer.left, answer.right):
        return False
    return pairwise(comparison, reference.items, answer.items)


def _same_lists(comparison: Comparison, reference: Several, answer: Several) -> bool:
    left, right = values(reference), values(answer)
    if "set" in (reference.kind, answer.kind) or all(isinstance(item, Bracketed) for item in left):
        # Solutions are a set: one that is given twice is one.
        left, right = _distinct(comparison, left), _distinct(comparison, right)
    if len(left) != len(right):
        return False
    labels = [without_label(comparison, item)[0] for item in right]
    if _all_different(labels):
        known = [without_label(comparison, item)[0] for item in left]
        if not _all_different(known):
            # "p = 3, q = 4" for "3, 4": in the order given or that of the names, and in no other.
            named = sorted(zip(map(str, labels), right, strict=True), key=lambda pair: pair[0])
            return pairwise(comparison, left, right) or pairwise(comparison, left, [item for _, item in named])
    return same_items(comparison, left, right)


def _distinct(comparison: Comparison, items: list[Node]) -> list[Node]:
    kept: list[Node] = []
    for item in items:
        if item not in kept:
            kept.append(item)
    return kept


def pairwise(
    comparison: Comparison, left: list[Node] | tuple[Node, ...], right: list[Node] | tuple[Node, ...]
) -> bool:
    return len(left) == len(right) and all(comparison.same(a, b) for a, b in zip(left, right, strict=True))


def same_items(
    comparison: Comparison, left: list[Node] | tuple[Node, ...], right: list[Node] | tuple[Node, ...]
) -> bool:
    """The same items in any order."""
    if len(left) != len(right):
        return False
    exact_left, exact_right = [exact(item) for item in left], [exact(item) for item in right]
    if None not in exact_left and None not in exact_right:
        if Counter(exact_left) == Counter(exact_right):
            return True
        if not (comparison.options.rel_tol or comparison.options.allow_rounded or any(map(rounding, left))):
            return False
    if len(left) > MAX_ITEMS:
        return pairwise(comparison, left, right)
    rest = list(right)
    for item in left:
        match = next((index for index, other in enumerate(rest) if comparison.same(item, other)), None)
        if match is None:
            return False
        del rest[match]
    return True


def multiplied(node: Node) -> Node:
    """A number times a matrix as the matrix of the products."""
    if isinstance(node, Negative) and isinstance(node.operand, Matrix):
        return _scaled(node.operand, lambda entry: Negative(entry))
    if isinstance(node, Quotient) and isinstance(node.numerator, Matrix):
        return _scaled(node.numerator, lambda entry: Quotient(entry, node.denominator))
    if isinstance(node, Product):
        matrices = [factor for factor in node.factors if isinstance(factor, Matrix)]
        others = tuple(factor for factor in node.factors if not isinstance(factor, Matrix))
        if len(matrices) == 1:
            return _scaled(matrices[0], lambda entry: Product((*others, entry)))
    return node


def _scaled(matrix: Matrix, rule: Callable[[Node], Node]) -> Matrix:
    return Matrix(tuple(tuple(rule(entry) for entry in row) for row in matrix.rows))


def _vector(node: Node) -> tuple[Node, ...] | None:
    """The entries of a row, a column or a tuple."""
    if isinstance(node, Matrix):
        if len(node.rows) == 1:
            return node.rows[0]
        return tuple(row[0] for row in node.rows) if len(node.rows[0]) == 1 else None
    if isinstance(node, Bracketed) and (node.left, node.right) in (("(", ")"), ("[", "]")):
        return node.items
    return None


def _all_different(labels: list[Node | None]) -> bool:
    return len(labels) > 1 and None not in labels and len({str(label) for label in labels}) == len(labels)


def has_collection(reference: Node, answer: Node) -> bool:
    return isinstance(reference, _COLLECTIONS) or isinstance(answer, _COLLECTIONS)
