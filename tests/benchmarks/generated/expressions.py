"""Deep random expressions in one or two variables, whose value is a polynomial with rational coefficients.

An expression is ``("n", value)``, ``("x",)``, ``("y",)``, ``("+", a, b)``, ``("-", a, b)``, ``("*", a, b)``,
``("/", a, number)`` or ``("^", a, exponent)``. It is rewritten by the laws of algebra, so that two writings have little
in common; its value is calculated from the tree alone.
"""

# Notations are lists of texts: a line for each would be a page for each kind.
# ruff: noqa: E501

from __future__ import annotations

import random
from collections.abc import Hashable
from fractions import Fraction
from typing import Any

Expression = tuple[Any, ...]
Polynomial = dict[tuple[int, int], Fraction]

DEPTH = 4
MAX_DEGREE = 6
WRITINGS = 6


def number_tree(source: random.Random) -> Expression:
    return _drawn(source, DEPTH, letters="")


def function_tree(source: random.Random) -> Expression:
    return _drawn(source, DEPTH, letters=source.choice(["x", "xy"]))


def _drawn(source: random.Random, depth: int, letters: str) -> Expression:
    """An expression of at most ``depth`` levels, of a degree and a size that stay small."""
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
    return max((sum(powers) for powers in polynomial(tree)), default=0)


def polynomial(tree: Expression) -> Polynomial:
    """The coefficient of each product of powers of x and y."""
    match tree:
        case ("n", number):
            return {(0, 0): number} if number else {}
        case ("x",):
            return {(1, 0): Fraction(1)}
        case ("y",):
            return {(0, 1): Fraction(1)}
        case ("/", inner, number):
            return {powers: factor / number for powers, factor in polynomial(inner).items()}
        case ("^", inner, exponent):
            result: Polynomial = {(0, 0): Fraction(1)}
            for _ in range(exponent):
                result = _times(result, polynomial(inner))
            return result
        case ("*", left, right):
            return _times(polynomial(left), polynomial(right))
        case (sign, left, right):
            total = dict(polynomial(left))
            for powers, factor in polynomial(right).items():
                total[powers] = total.get(powers, Fraction(0)) + (factor if sign == "+" else -factor)
            return {powers: factor for powers, factor in total.items() if factor}
    raise AssertionError(tree)


def _times(left: Polynomial, right: Polynomial) -> Polynomial:
    product: Polynomial = {}
    for (a, b), factor in left.items():
        for (c, d), other in right.items():
            powers = (a + c, b + d)
            product[powers] = product.get(powers, Fraction(0)) + factor * other
    return {powers: factor for powers, factor in product.items() if factor}


def expression_value(tree: Expression) -> Hashable:
    return frozenset(polynomial(tree).items())


def write_expression(tree: Expression) -> list[str]:
    """The tree as it is, and rewritten by the laws of algebra; the same for the same tree."""
    source = random.Random(repr(tree))
    texts = [_latex(tree), _plain(tree)]
    for index in range(WRITINGS):
        other = _rewritten(tree, source, 3)
        texts.append(_latex(other) if index % 2 else _plain(other))
    texts.append(_expanded(polynomial(tree)))
    return texts


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


def _latex(tree: Expression) -> str:
    match tree:
        case ("n", number):
            return str(number) if number >= 0 else rf"\left({number}\right)"
        case (name,):
            return str(name)
        case ("/", inner, number):
            return rf"\frac{{{_latex(inner)}}}{{{number}}}"
        case ("^", inner, exponent):
            return rf"\left({_latex(inner)}\right)^{{{exponent}}}"
        case ("*", left, right):
            return rf"\left({_latex(left)}\right) \cdot \left({_latex(right)}\right)"
        case (sign, left, right):
            return rf"{_latex(left)} {sign} \left({_latex(right)}\right)"
    raise AssertionError(tree)


def _plain(tree: Expression) -> str:
    match tree:
        case ("n", number):
            return str(number) if number >= 0 else f"({number})"
        case (name,):
            return str(name)
        case ("/", inner, number):
            return f"({_plain(inner)})/{number}"
        case ("^", inner, exponent):
            return f"({_plain(inner)})^{exponent}"
        case (sign, left, right):
            return f"({_plain(left)}){sign}({_plain(right)})"
    raise AssertionError(tree)


def _expanded(terms: Polynomial) -> str:
    if not terms:
        return "0"
    text = ""
    for (a, b), factor in sorted(terms.items(), reverse=True):
        size = abs(factor)
        number = str(size) if size.denominator == 1 else rf"\frac{{{size.numerator}}}{{{size.denominator}}}"
        letters = "".join(f"{name}^{{{power}}}" for name, power in (("x", a), ("y", b)) if power)
        text += f" {'-' if factor < 0 else '+'} {number}{letters}"
    return text.removeprefix(" + ").strip()


def change_expression(tree: Expression, source: random.Random) -> Expression:
    """A leaf or an operator is another one."""
    if tree[0] == "n":
        return ("n", tree[1] + source.choice([1, 2, 10]))
    if len(tree) == 1:
        return ("n", Fraction(source.randint(2, 9))) if source.random() < 0.5 else ("*", tree, tree)
    if source.random() < 0.25 and tree[0] in ("+", "-"):
        return ("-" if tree[0] == "+" else "+", *tree[1:])
    places = [index for index, part in enumerate(tree) if isinstance(part, tuple)]
    place = source.choice(places)
    return (*tree[:place], change_expression(tree[place], source), *tree[place + 1 :])
