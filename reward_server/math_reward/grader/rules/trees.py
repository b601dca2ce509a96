"""Operations on trees that several rules need: signs, values, renaming, units."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence
from fractions import Fraction

from math_reward.grader.errors import TooComplex
from math_reward.grader.notation.syntax import (
    Bracketed,
    Call,
    Collection,
    Matrix,
    Negative,
    Node,
    Number,
    PlusMinus,
    Product,
    Quantity,
    Relation,
    Sum,
    Symbol,
    rebuilt,
    substituted,
    walk,
)
from math_reward.grader.words.functions import known

MAX_ITEMS = 64
"""How many items, other than plain numbers, a list may have to be compared in any order."""
_NO_UNIT = re.compile(r"units?(?:\^\d)?")


def is_integer(value: Fraction | None) -> bool:
    return value is not None and value.denominator == 1


def has_sign(node: Node) -> bool:
    if isinstance(node, (Number, Symbol, Relation, Collection, Matrix)):
        return False
    return any(isinstance(part, PlusMinus) for part in walk(node))


def _has_minus_plus(node: Node) -> bool:
    return any(isinstance(part, PlusMinus) and part.turned for part in walk(node))


def signed(node: Node, sign: int) -> Node:
    r"""``node`` with the same sign for every ``\pm``, and the opposite one for every ``\mp``."""

    def change(part: Node) -> Node | None:
        if not isinstance(part, PlusMinus):
            return None
        right = signed(part.right, sign)
        right = right if (sign > 0) != part.turned else Negative(right)
        return right if part.left is None else Sum((signed(part.left, sign), right))

    return rebuilt(node, change)


def values(node: Node) -> list[Node]:
    r"""The values of a list, with two for each ``a \pm b``; the entries of a tuple have independent signs, unless
    there is a ``\mp``.
    """
    if isinstance(node, Bracketed) and has_sign(node) and not _has_minus_plus(node):
        choices = [values(item) if has_sign(item) else [item] for item in node.items]
        if math.prod(map(len, choices)) > MAX_ITEMS:
            raise TooComplex(f"its signs give more than {MAX_ITEMS} tuples")
        return [Bracketed(node.left, node.right, items) for items in itertools.product(*choices)]
    if not isinstance(node, Collection):
        return [signed(node, 1), signed(node, -1)] if has_sign(node) else [node]
    listed: list[Node] = []
    for item in node.items:
        if isinstance(item, Relation) and isinstance(item.operands[-1], PlusMinus) and item.operators == ("=",):
            listed += values(item.operands[-1])
        elif (isinstance(item, Collection) and item.kind != "set") or has_sign(item):
            listed += values(item)
        else:
            listed.append(item)
    return listed


def paired(items: Sequence[Node], others: Sequence[Node], same: Callable[[Node, Node], bool]) -> bool:
    """Whether each item has a partner of its own among the others, in any order."""
    rest = list(others)
    for item in items:
        partner = next((index for index, other in enumerate(rest) if same(item, other)), None)
        if partner is None:
            return False
        del rest[partner]
    return True


def renamed(node: Node, new: Sequence[Node], old: Sequence[Node]) -> Node:
    """``node`` with new letters in the place of old ones, all at once; what has a new name already is another."""
    names: dict[str, Node] = {}
    pairs = [
        (a, b) for a, b in zip(new, old, strict=True) if isinstance(a, Symbol) and isinstance(b, Symbol) and a != b
    ]
    for letter, _ in pairs:
        names[letter.name] = Symbol(f"other {letter.name}")
    return substituted(node, names | {was.name: letter for letter, was in pairs}) if pairs else node


def parts(node: Node) -> tuple[Node, ...]:
    return node.terms if isinstance(node, Sum) else node.factors if isinstance(node, Product) else (node,)


def split(node: Node) -> tuple[Node, str]:
    if isinstance(node, Quantity):
        return node.value, "" if _NO_UNIT.fullmatch(node.unit) else node.unit
    return node, ""


def as_variables(*nodes: Node) -> tuple[Node, ...]:
    """The nodes with a variable for every call of an unknown function, the same variable for the same call."""
    names: list[Call] = []

    def change(part: Node) -> Node | None:
        if not isinstance(part, Call) or known(part.function).value is not None:
            return None
        if part not in names:
            names.append(part)
        return Symbol(f"call {names.index(part)}")

    return tuple(rebuilt(node, change) for node in nodes)
