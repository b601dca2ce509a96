"""What a kind of generated answer is, and how its numbers are written."""

# Notations are lists of texts: a line for each would be a page for each kind.

from __future__ import annotations

import random
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

Tree = Any
"""The parameters of one answer: numbers, tuples of numbers, nested expressions."""


@dataclass(frozen=True)
class Kind:
    """A kind of answer."""

    draw: Callable[[random.Random], Tree]
    value: Callable[[Tree], Hashable]
    """What two trees have in common that mean the same."""
    write: Callable[[Tree], list[str]]
    """The notations of a tree."""
    change: Callable[[Tree, random.Random], Tree]
    """A tree in which one thing is another."""


class Pair(NamedTuple):
    kind: str
    reference: str
    completion: str
    same: bool
    prompt: str | None = None
    """The prompt with which the completion begins."""


def latex(value: Fraction) -> str:
    if value.denominator == 1:
        return str(value.numerator)
    sign = "-" if value < 0 else ""
    return rf"{sign}\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"


def decimal(value: Fraction) -> str | None:
    below = value.denominator
    for prime in (2, 5):
        while below % prime == 0:
            below //= prime
    if below != 1:
        return None
    text = f"{float(value):.9f}".rstrip("0").rstrip(".")
    return text if Fraction(text) == value else None


def same_tree(tree: Tree) -> Hashable:
    return tree


def change_number(value: Any, source: random.Random) -> Any:
    return source.choice([-value, value + 1, value * 10, value - 2, value * 2])


def change_pair(tree: tuple[int, int], source: random.Random) -> tuple[int, int]:
    a, b = tree
    return source.choice([(a, -b), (a + 1, b), (-a, b), (b, a), (a, b + 1)])
