r"""Compares lists and sets in any order, tuples in order, and ``a \pm b`` as two values; matrices
entry by entry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from math_reward.grader.notation.exact import exact
from math_reward.grader.notation.syntax import (
    Bracketed,
    Call,
    Collection,
    Matrix,
    Node,
    PlusMinus,
    Product,
    Relation,
    Symbol,
    symbols,
)
from math_reward.grader.rules.comparison import Comparison
from math_reward.grader.rules.labels import in_order_of_names, labels_of, without_label
from math_reward.grader.rules.rounding import rounding
from math_reward.grader.rules.trees import MAX_ITEMS, has_minus_plus, has_sign, paired, signed, values
from math_reward.grader.verdict import Stage


def same_collection(comparison: Comparison, reference: Node, answer: Node) -> bool:
    """Lists and sets are the same in any order, named items by name, tuples in order."""
    comparison.reached(Stage.STRUCTURE)
    if has_minus_plus(reference) or has_minus_plus(answer):  # x = ±1, y = ∓2: the upper signs belong together.
        both = [[signed(side, sign) for side in (reference, answer)] for sign in (1, -1)]
        if both[0] != [reference, answer]:
            return all(same_collection(comparison, *sides) for sides in both)
    reference, answer = _as_list(comparison, reference), _as_list(comparison, answer)
    if isinstance(reference, Bracketed) and isinstance(answer, Bracketed):
        return same_brackets(comparison, reference, answer)
    if isinstance(reference, Collection) and isinstance(answer, Collection):
        return _same_lists(comparison, reference, answer)
    if Bracketed in (type(reference), type(answer)):
        tuple_, other = (reference, answer) if isinstance(reference, Bracketed) else (answer, reference)
        assert isinstance(tuple_, Bracketed)
        if isinstance(other, Collection):
            if len(other.items) == 1:
                return _in_order(comparison, reference, answer, other, other.items[0])
            if other.kind != "list" or is_interval(tuple_) or _names_one_thing(comparison, other):
                return False
            names = labels_of(comparison, list(other.items))
            items = list(other.items) if names is None else in_order_of_names(names, list(other.items))
            pair = (list(tuple_.items), items)
            return comparison.same_in_order(*(pair if tuple_ is reference else pair[::-1]))
        return len(tuple_.items) == 1 and _in_order(comparison, reference, answer, tuple_, tuple_.items[0])
    collection = reference if isinstance(reference, Collection) else answer
    assert isinstance(collection, Collection)
    if (letters := _choices(reference)) and letters == _choices(answer):
        return True  # AC, and A and C
    inner = values(collection)
    return len(inner) == 1 and _in_order(comparison, reference, answer, collection, inner[0])


def is_interval(node: Bracketed) -> bool:
    """Whether its brackets matter: ``[1, 5]`` and ``[1, 5)``, and not ``(1, 5)``, may only be intervals."""
    return len(node.items) == 2 and (node.left, node.right) != ("(", ")")


def _names_one_thing(comparison: Comparison, node: Collection) -> bool:
    """Whether it is several values of one name: ``x = 1, x = 2`` is no point."""
    labels = [without_label(comparison, item)[0] for item in node.items]
    return len(labels) > 1 and labels[0] is not None and all(label == labels[0] for label in labels)


def _as_list(comparison: Comparison, node: Node) -> Node:
    """The list of named values that ``(x = 5, y = 6)`` is; other nodes as they are."""
    if isinstance(node, Bracketed) and labels_of(comparison, list(node.items)):
        return Collection("list", node.items)
    return node


def _in_order(comparison: Comparison, reference: Node, answer: Node, wrapped: Node, content: Node) -> bool:
    """Compares the two, with ``content`` in place of ``wrapped``."""
    return comparison.same(content if wrapped is reference else reference, content if wrapped is answer else answer)


def same_brackets(comparison: Comparison, reference: Bracketed, answer: Bracketed) -> bool:
    # [1, 2, 3] is the tuple (1, 2, 3), but two items may be an interval, whose brackets matter.
    if len(reference.items) == 2 and (reference.left, reference.right) != (answer.left, answer.right):
        return False
    return comparison.same_in_order(reference.items, answer.items)


def _same_lists(comparison: Comparison, reference: Collection, answer: Collection) -> bool:
    left, right = values(reference), values(answer)
    if "set" in (reference.kind, answer.kind) or all(isinstance(item, Bracketed) for item in left):
        # Solutions are a set: a solution that is given twice counts once.
        left, right = _distinct(comparison, left), _distinct(comparison, right)
    if len(left) != len(right):
        return False
    names, others = labels_of(comparison, left), labels_of(comparison, right)
    if names is not None and others is not None:
        if sorted(names) != sorted(others):
            return _named_otherwise(names, others) and comparison.same_in_order(left, right)
        named = dict(zip(others, right, strict=True))
        return comparison.same_in_order(left, [named[name] for name in names])
    if others is not None:
        if reference.kind == "set" or any(map(_is_set, left)):
            return False  # {1, 2} is not the point x = 1, y = 2.
        return comparison.same_in_order(left, in_order_of_names(others, right))
    if names is not None and "set" not in (reference.kind, answer.kind):
        return comparison.same_in_order(in_order_of_names(names, left), right)
    return names is None and same_items(comparison, left, right)


def _choices(node: Node) -> list[str] | None:
    """The letters of several choices, sorted; None if ``node`` is something else."""
    parts: tuple[Node, ...] = node.factors if isinstance(node, Product) else ()
    if isinstance(node, Collection) and node.kind == "list":
        parts = node.items
    names = sorted(part.name for part in parts if isinstance(part, Symbol) and part.name in "ABCDEFGH")
    return names if len(names) == len(parts) == len({*names}) > 1 else None


def _named_otherwise(names: list[str], others: list[str]) -> bool:
    """Whether the names are the same, except where one is a formula and the other its name in words."""
    return all(
        name == other or (name.isascii() != other.isascii() and "," in f"{name}{other}")
        for name, other in zip(names, others, strict=True)
    )


def _distinct(comparison: Comparison, items: list[Node]) -> list[Node]:
    kept: list[Node] = []
    for item in items:
        if item not in kept and not (len(items) <= 16 and any(comparison.same(other, item) for other in kept)):
            kept.append(item)
    return kept


def same_items(comparison: Comparison, left: Sequence[Node], right: Sequence[Node]) -> bool:
    """Whether both have the same items, in any order."""
    if len(left) != len(right):
        return False
    exact_left, exact_right = [exact(item) for item in left], [exact(item) for item in right]
    if None not in exact_left and None not in exact_right:
        if Counter(exact_left) == Counter(exact_right):
            return True
        if not (comparison.options.rel_tol or comparison.options.allow_rounded or any(map(rounding, left))):
            return False
    if len(left) > MAX_ITEMS:
        return comparison.same_in_order(left, right)
    return paired(left, right, lambda a, b: _is_set(a) == _is_set(b) and comparison.same(a, b))


def _is_set(node: Node) -> bool:
    """Whether it is a set among the elements of another: {1} is not 1."""
    return isinstance(node, Collection) and node.kind == "set"


def mentions(comparison: Comparison, reference: Node, answer: Node) -> bool:
    """Whether the answer has several values of which the reference is one: a guess."""
    if isinstance(answer, Relation) and answer.operators == ("in",):
        answer = answer.operands[1]
    if isinstance(reference, (Collection, Bracketed, Matrix)) or not isinstance(answer, (Collection, PlusMinus)):
        return False
    return any(comparison.same(reference, item) for item in values(answer))


# ── two values of one sign ──


def same_signed(comparison: Comparison, reference: Node, answer: Node) -> bool:
    turned = has_minus_plus(reference) or has_minus_plus(answer)
    if turned and symbols(reference) and has_sign(reference) and has_sign(answer):  # The upper signs belong together.
        return all(comparison.same_value(signed(reference, sign), signed(answer, sign)) for sign in (1, -1))
    return same_items(comparison, values(reference), values(answer))


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
