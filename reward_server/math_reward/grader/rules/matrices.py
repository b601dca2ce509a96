"""Compares matrices entry by entry."""

from __future__ import annotations

from math_reward.grader.notation.exact import exact
from math_reward.grader.notation.syntax import Bracketed, Call, Collection, Matrix, Node
from math_reward.grader.rules.collections import is_interval
from math_reward.grader.rules.comparison import Comparison
from math_reward.grader.rules.labels import in_order_of_names, labels_of


def same_matrix(comparison: Comparison, reference: Node, answer: Node) -> bool:
    """Matrices are the same entry by entry; a row or a column is a tuple."""
    reference, answer = _from_rows(reference), _from_rows(answer)
    if isinstance(reference, Matrix) and isinstance(answer, Matrix):
        if [len(row) for row in reference.rows] != [len(row) for row in answer.rows]:
            return False
        return all(map(comparison.same_in_order, reference.rows, answer.rows))
    if isinstance(reference, Call) and not _is_column(reference):
        return False
    if isinstance(reference, Bracketed) and is_interval(reference):
        return False
    left, right = _vector(comparison, reference), _vector(comparison, answer)
    return left is not None and right is not None and comparison.same_in_order(left, right)


def _is_column(node: Call) -> bool:
    r"""Whether ``\binom{1}{2}`` can only be a column: as a number it would be zero."""
    values = [exact(argument) for argument in node.arguments]
    return len(values) == 2 and values[0] is not None and values[1] is not None and values[0] < values[1]


def _from_rows(node: Node) -> Node:
    """``[[1, 2], [3, 4]]`` as a matrix; other nodes as they are."""
    if not isinstance(node, Bracketed) or (node.left, node.right) != ("[", "]"):
        return node
    rows = [item.items for item in node.items if isinstance(item, Bracketed) and (item.left, item.right) == ("[", "]")]
    square = len(rows) == len(node.items) and len({len(row) for row in rows}) == 1
    return Matrix(tuple(rows)) if square else node


def _vector(comparison: Comparison, node: Node) -> tuple[Node, ...] | None:
    """The entries of a row, a column or a tuple; None for other nodes."""
    if isinstance(node, Matrix):
        if len(node.rows) == 1:
            return node.rows[0]
        return tuple(row[0] for row in node.rows) if len(node.rows[0]) == 1 else None
    if isinstance(node, Bracketed) and (node.left, node.right) in (("(", ")"), ("[", "]")):
        return node.items
    if isinstance(node, Call) and node.function == "binom":
        return node.arguments  # A column, in the notation of some schools.
    if isinstance(node, Collection) and (names := labels_of(comparison, list(node.items))):
        return tuple(in_order_of_names(names, list(node.items)))
    return None
