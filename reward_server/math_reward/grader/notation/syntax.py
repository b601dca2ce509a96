"""The syntax tree of an answer: what was written, and not yet what it means.

Every node is a small dataclass that is never changed once it is made. Two trees are equal (``==``) if the same was
written.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, TypeAlias, get_args


@dataclass(slots=True)
class Number:
    """A number in digits: ``42``, ``1,000``, ``.50``."""

    value: Fraction
    places: int | None = None
    """Where the last digit of a decimal stands: 2 for ``0.05``, 4 for ``0.05e-2``, -1 for ``1.5e2``; None for an
    integer literal."""
    significant: int = 0
    """Significant digits of a decimal as written: 3 for ``0.0458``."""


@dataclass(slots=True)
class Symbol:
    """A variable with its index: ``x``, ``x_{1}``, ``alpha``."""

    name: str


@dataclass(slots=True)
class Constant:
    """``pi``, ``e``, ``i``, ``infinity``, ``emptyset`` or a number set: ``reals``, ``integers`` ..."""

    name: str


@dataclass(slots=True)
class Sum:
    """Two or more terms; a subtracted one is a ``Negative``."""

    terms: tuple[Node, ...]


@dataclass(slots=True)
class Product:
    """Two or more factors, with or without a sign of multiplication."""

    factors: tuple[Node, ...]


@dataclass(slots=True)
class Quotient:
    """A fraction or a division."""

    numerator: Node
    denominator: Node


@dataclass(slots=True)
class Power:
    """``base ^ exponent``."""

    base: Node
    exponent: Node


@dataclass(slots=True)
class Negative:
    """``- operand``."""

    operand: Node


@dataclass(slots=True)
class PlusMinus:
    r"""``left \pm right``, or ``\pm right`` where ``left`` is None: two values."""

    left: Node | None
    right: Node
    turned: bool = False
    r"""Whether it is ``\mp``, whose sign is the opposite of every ``\pm``."""


@dataclass(slots=True)
class Call:
    """A named function: ``sin``, ``sqrt``, ``root`` (of, index), ``log`` (of, base), ``abs``, ``factorial`` ..."""

    function: str
    arguments: tuple[Node, ...]


@dataclass(slots=True)
class Applied:
    """A function that has no meaning of its own at its arguments: ``f(x)``, ``P(A)``, ``f^{-1}(2)``."""

    name: str
    arguments: tuple[Node, ...]
    is_inverse: bool = False


@dataclass(slots=True)
class BigOperator:
    r"""``\sum``, ``\prod``, ``\int`` or ``\lim`` with its bounds and its body."""

    name: str
    lower: Node | None
    upper: Node | None
    body: Node


@dataclass(slots=True)
class Relation:
    r"""A chain ``a < b \le c``, with one operator less than operands."""

    operators: tuple[str, ...]
    """Each one of ``= != < <= > >= ~ in``; ``~`` is "approximately"."""
    operands: tuple[Node, ...]


@dataclass(slots=True)
class Congruence:
    r"""``residue \pmod{modulus}``."""

    residue: Node
    modulus: Node


@dataclass(slots=True)
class Collection:
    """Values one after the other: ``1, 2`` (``kind`` "list"), ``{1, 2}`` ("set") or ``1 or 2`` ("or")."""

    kind: str
    items: tuple[Node, ...]


@dataclass(slots=True)
class Bracketed:
    """``(a, b)`` or ``[a, b)``: a tuple, a point or an interval, as the other side is."""

    left: str
    right: str
    items: tuple[Node, ...]


@dataclass(slots=True)
class SetBuilder:
    """``{variable | condition}``."""

    variable: Node
    condition: Node


@dataclass(slots=True)
class SetOperation:
    """``union``, ``intersection`` or ``difference`` of sets."""

    operator: str
    operands: tuple[Node, ...]


@dataclass(slots=True)
class Matrix:
    """Rows of entries; a column vector has one entry per row."""

    rows: tuple[tuple[Node, ...], ...]


@dataclass(slots=True)
class Text:
    """Words, in lower case and without punctuation at their ends; a single letter stays as it is."""

    text: str


@dataclass(slots=True)
class Quantity:
    """A value with its unit: ``percent``, ``degree``, a unit, a currency or a counted thing."""

    value: Node
    unit: str


@dataclass(slots=True)
class BasedNumber:
    """``204_5`` and ``0.0011_2``: digits in a base between 2 and 36."""

    digits: str
    base: int

    @property
    def value(self) -> Fraction:
        whole, _, places = self.digits.partition(".")
        return Fraction(int(whole + places, self.base), self.base ** len(places))


@dataclass(slots=True)
class ClockTime:
    """A time of day, in seconds after midnight; ``as_ratio`` is the ratio that ``3:20`` may also mean."""

    seconds: int
    as_ratio: Ratio | None = None
    has_half: bool = False
    """Whether it says which half of the day it is: AM or PM."""


@dataclass(slots=True)
class Ratio:
    """``a : b`` or ``a : b : c``."""

    terms: tuple[Node, ...]


Node: TypeAlias = (
    Number
    | Symbol
    | Constant
    | Sum
    | Product
    | Quotient
    | Power
    | Negative
    | PlusMinus
    | Call
    | Applied
    | BigOperator
    | Relation
    | Congruence
    | Collection
    | Bracketed
    | SetBuilder
    | SetOperation
    | Matrix
    | Text
    | Quantity
    | BasedNumber
    | ClockTime
    | Ratio
)

EXPRESSIONS = (
    Number, Symbol, Constant, Sum, Product, Quotient, Power, Negative, Call, Applied, BigOperator, Quantity,
    BasedNumber,
)  # fmt: skip
"""The kinds of a single expression, which may have a value."""

# For each kind of node its fields that hold nodes, tuples of nodes, or None.
_CHILDREN = {
    kind: tuple(field.name for field in fields(kind) if "Node" in str(field.type) or "Ratio" in str(field.type))
    for kind in get_args(Node)
}


def walk(node: Node) -> Iterator[Node]:
    """``node`` and every node below it, in no particular order."""
    stack: list[Any] = [node]
    while stack:
        part = stack.pop()
        if type(part) is tuple:
            stack.extend(part)
        elif part is not None:
            yield part
            for name in _CHILDREN[type(part)]:
                stack.append(getattr(part, name))


def rebuilt(node: Node, change: Callable[[Node], Node | None]) -> Node:
    """A copy of ``node`` with its parts replaced by what ``change`` returns for them, from the top down. For None the
    part stays, and its own parts are looked at.
    """
    return _rebuilt(node, change)


def _rebuilt(part: Any, change: Callable[[Node], Node | None]) -> Any:
    if type(part) is tuple:
        return tuple([_rebuilt(item, change) for item in part])
    if type(part) not in _CHILDREN:
        return part
    changed = change(part)
    if changed is not None:
        return changed
    return type(part)(*[_rebuilt(getattr(part, name), change) for name in part.__slots__])


ZERO, ONE = Number(Fraction(0)), Number(Fraction(1))


def difference(left: Node, right: Node) -> Sum:
    """``left - right``."""
    return Sum((left, Negative(right)))


def substituted(node: Node, values: Mapping[str, Node]) -> Node:
    """``node`` with new parts in place of variables, all at once, by the variables' names."""
    return rebuilt(node, lambda part: values.get(part.name) if isinstance(part, Symbol) else None)


def symbols(node: Node) -> set[str]:
    """The names of the variables in ``node`` that no sum, integral or limit binds."""
    names: set[str] = set()
    bound: set[str] = set()
    for part in walk(node):
        if type(part) is Symbol:
            names.add(part.name)
        elif type(part) is BigOperator:
            bound |= bound_by(part)
    return names - bound


def differential(factors: tuple[Node, ...]) -> tuple[int, str] | None:
    """Where the ``dx`` of an integral begins among factors, and the name ``x``; None without one."""
    for place, (before, after) in enumerate(itertools.pairwise(factors)):
        if before == Symbol("d") and type(after) is Symbol:
            return place, after.name
    return None


def bound_by(node: BigOperator) -> set[str]:
    """The names that a big operator binds: its variable and, for an integral, the d before it."""
    if "int" in node.name:
        for part in walk(node.body):
            if type(part) is Product and (dx := differential(part.factors)) is not None:
                return {"d", dx[1]}
        return set()
    lower = node.lower
    if type(lower) is Relation and type(lower.operands[0]) is Symbol:
        return {lower.operands[0].name}
    return set()
