"""Deep random expressions in no, one or two variables, rewritten by the laws of algebra.

An expression is ``("n", value)``, ``("x",)``, ``("y",)``, ``("+", a, b)``, ``("-", a, b)``, ``("*", a, b)``,
``("/", a, number)`` or ``("^", a, exponent)``. Two writings have little in common. Its value is calculated from the
tree alone: exactly, at more points than a polynomial of its degree could agree in by chance.
"""

from __future__ import annotations

import random
from collections.abc import Hashable
from fractions import Fraction
from typing import Any

Expression = tuple[Any, ...]

DEPTH = 4
MAX_DEGREE = 6
WRITINGS = 6
_POINTS = [(Fraction(2 * i + 1, 3), Fraction(i * i - 5, 7)) for i in range(-8, 9)]


def number(source: random.Random) -> Expression:
    return _drawn(source, DEPTH, letters="")


def function(source: random.Random) -> Expression:
    return _drawn(source, DEPTH, letters=source.choice(["x", "xy"]))


def _drawn(source: random.Random, depth: int, letters: str) -> Expression:
    """An expression of at most ``depth`` levels, of a degree that stays small."""
    if depth == 0 or source.random() < 0.12:
        if letters and source.random() < 0.6:
            return (source.choice(letters),)
        return ("n", Fraction(source.randint(1, 9)))
    operator = source.choice("++--**/^")
    left = _drawn(source, depth - 1, letters)
    if operator == "/":
        return ("/", left, Fraction(source.randint(2, 9)))
    if operator == "^":
        return ("^", left, 2) if _degree(left) <= 2 and depth <= 2 else left
    right = _drawn(source, depth - 1, letters)
    if operator == "*" and _degree(left) + _degree(right) > MAX_DEGREE:
        operator = "+"
    return (operator, left, right)


def _degree(tree: Expression) -> int:
    match tree:
        case ("n", _):
            return 0
        case ("/", inner, _):
            return _degree(inner)
        case ("^", inner, exponent):
            return exponent * _degree(inner)
        case ("*", left, right):
            return _degree(left) + _degree(right)
        case (_, left, right):
            return max(_degree(left), _degree(right))
    return 1


def value(tree: Expression) -> Hashable:
    return tuple(_at(tree, x, y) for x, y in _POINTS)


def _at(tree: Expression, x: Fraction, y: Fraction) -> Fraction:
    match tree:
        case ("n", number):
            return number
        case ("/", inner, number):
            return _at(inner, x, y) / number
        case ("^", inner, exponent):
            return _at(inner, x, y) ** exponent
        case ("+", left, right):
            return _at(left, x, y) + _at(right, x, y)
        case ("-", left, right):
            return _at(left, x, y) - _at(right, x, y)
        case ("*", left, right):
            return _at(left, x, y) * _at(right, x, y)
    return x if tree == ("x",) else y


def write(tree: Expression) -> list[str]:
    """The tree as it is, and rewritten by the laws of algebra; the same for the same tree."""
    source = random.Random(repr(tree))
    return [_text(tree), *(_text(_rewritten(tree, source, 3)) for _ in range(WRITINGS))]


def _rewritten(tree: Expression, source: random.Random, budget: int) -> Expression:
    """One of: the operands turned round, a product multiplied out, something added and taken away again."""
    if tree[0] in ("n", "x", "y"):
        return ("-", ("+", tree, ("n", Fraction(3))), ("n", Fraction(3))) if source.random() < 0.1 else tree
    inner = [_rewritten(part, source, budget - 1) if isinstance(part, tuple) else part for part in tree[1:]]
    turned = source.random() < 0.4
    if tree[0] in ("+", "*") and turned:
        return (tree[0], inner[1], inner[0])
    if tree[0] == "-" and turned:
        return ("+", ("*", ("n", Fraction(-1)), inner[1]), inner[0])
    if tree[0] == "*" and budget > 0 and inner[1][0] in ("+", "-"):
        return (inner[1][0], ("*", inner[0], inner[1][1]), ("*", inner[0], inner[1][2]))
    if tree[0] == "/" and turned:
        return ("/", ("*", ("n", Fraction(2)), inner[0]), 2 * inner[1])
    if tree[0] == "^" and tree[2] == 2 and turned:
        return ("*", inner[0], inner[0])
    return (tree[0], *inner)


def _text(tree: Expression) -> str:
    match tree:
        case ("n", number):
            return str(number) if number >= 0 else f"({number})"
        case ("/", inner, number):
            return rf"\frac{{{_text(inner)}}}{{{number}}}"
        case ("^", inner, exponent):
            return rf"\left({_text(inner)}\right)^{{{exponent}}}"
        case ("*", left, right):
            return rf"({_text(left)}) \cdot ({_text(right)})"
        case (sign, left, right):
            return rf"{_text(left)} {sign} \left({_text(right)}\right)"
    return str(tree[0])
