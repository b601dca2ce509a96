"""What a kind of generated answer is, how its numbers are written, and how a completion says it."""

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
    """A reference and a completion, and whether they are equal by construction."""

    kind: str
    reference: str
    completion: str
    same: bool


def latex(value: Fraction) -> str:
    if value.denominator == 1:
        return str(value.numerator)
    sign = "-" if value < 0 else ""
    return rf"{sign}\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"


def same_tree(tree: Tree) -> Hashable:
    return tree


def change_number(value: Any, source: random.Random) -> Any:
    return source.choice([-value, value + 1, value * 10, value - 2, value * 2])


def change_pair(tree: tuple[int, int], source: random.Random) -> tuple[int, int]:
    a, b = tree
    return source.choice([(a, -b), (a + 1, b), (-a, b), (b, a), (a, b + 1)])


_BOXED = [
    r"So the answer is $\boxed{%s}$.",
    r"\[ \boxed{%s} \]",
    r"First I get \boxed{17}, but no: \boxed{%s}<|im_end|>",
    r"<think>\boxed{99}</think> It is \fbox{%s}",
    r"\boxed{\displaystyle %s\ .}",
]
_UNBOXED = [
    "The final answer is $%s$.",
    "Adding up, we are done.\n\n**Answer:** $%s$",
    "#### $%s$",
    "所以答案是$%s$。",
    "La réponse est $%s$.",
    "<answer>$%s$</answer>",
]


def said(answer: str, source: random.Random) -> str:
    """A completion that ends with ``answer``; a text of words stands in a box."""
    boxed = "\\text" in answer or not answer.isascii() or source.random() < 0.7
    return source.choice(_BOXED if boxed else _UNBOXED).replace("%s", answer)
