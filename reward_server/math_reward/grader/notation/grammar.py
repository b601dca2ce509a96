"""The grammar of an answer: its rules, loosest binding first, which parts in other files read.

answer    = list { "or" list }
list      = relation { ("," | ";" | "and") relation }
relation  = measured { ("=" | "<" | ...) measured }
measured  = ratio [ unit ]
ratio     = sets { ":" sets }
sets      = sum { (union | intersection | difference) sum }
sum       = [ sign ] product { ("+" | "-" | pm) product }
product   = power { [ "*" | "/" ] power }
power     = primary { "^" argument | "!" | "%" | ... }
primary   = number | word | command | group
"""

from __future__ import annotations

from collections.abc import Callable

from math_reward.grader.notation.stream import TokenStream
from math_reward.grader.notation.syntax import Node


class Grammar(TokenStream):
    """What the parts of the parser call of each other; ``parse.Parser`` is all of them."""

    __slots__ = ()

    _answer: Callable[[], Node]
    _list: Callable[..., Node]
    _relation: Callable[[], Node]
    _measured: Callable[[], Node]
    _ratio: Callable[[], Node]
    _sum: Callable[[], Node]
    _product: Callable[[], Node]
    _power: Callable[[], Node]
    _signed_power: Callable[[], Node]
    """A power with signs before it."""
    _starts_factor: Callable[[], bool]
    """Whether a factor follows without a sign of multiplication."""
    _primary: Callable[[], Node]
    _command: Callable[[], Node]
    _argument: Callable[..., Node]
    """The argument of a command: a group in braces, or the next single token."""
    _scripts: Callable[..., dict[str, Node]]
    """The arguments of ``_`` and ``^``, by these signs, of those that are allowed."""
    _brackets: Callable[[], Node]
    _set: Callable[[], Node]
    _items: Callable[[], tuple[Node, ...]]
    _braces: Callable[..., Node]
    _function: Callable[[str], Node]
    _sympy_call: Callable[[str], Node]
    _arrangement: Callable[[str], Node | None]
    _called_arrangement: Callable[[str], Node | None]
