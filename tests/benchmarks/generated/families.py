"""Families with a parameter, progressions, propositions."""

from __future__ import annotations

import itertools
import random
from collections.abc import Hashable
from fractions import Fraction
from typing import Any

from generated.numbers import latex

Proposition = Any
"""A letter, ("not", inner) or (connective, left, right)."""


def family(source: random.Random) -> tuple[Fraction, Fraction]:
    return Fraction(source.randint(0, 5), 6), Fraction(source.choice([1, 2]), source.choice([1, 2, 3]))


def family_value(tree: tuple[Fraction, Fraction]) -> Hashable:
    start, step = tree
    return start % step, step


def write_family(tree: tuple[Fraction, Fraction]) -> list[str]:
    start, step = tree
    return [
        rf"x = {latex(start)}\pi + {latex(step)}n\pi",
        rf"{latex(start + step)}\pi + {latex(step)}m\pi",
        rf"{latex(start)}\pi + {latex(step)}\pi k, k \in \mathbb{{Z}}",
        rf"{latex(start - step)}\pi + {latex(step)}n\pi \text{{ for any integer }} n",
    ]


def progression(source: random.Random) -> tuple[int, int, str]:
    return source.randint(2, 9), source.randint(0, 9), source.choice(["N", "Z"])


def progression_value(tree: tuple[int, int, str]) -> Hashable:
    """All integers k may be shifted, natural ones may not."""
    a, b, domain = tree
    return (a, b % a, domain) if domain == "Z" else tree


def write_progression(tree: tuple[int, int, str]) -> list[str]:
    a, b, domain = tree
    return [
        rf"{a}k + {b}, k \in \mathbb{{{domain}}}",
        rf"\{{{a}m + {b} : m \in \mathbb{{{domain}}}\}}",
        rf"{b} + {a}k \text{{ for }} k \in \mathbb{{{domain}}}",
    ]


def proposition(source: random.Random, depth: int = 3) -> Proposition:
    if depth == 0:
        return source.choice("pqr")
    connective = source.choice(["and", "or", "implies", "iff", "not", "not"])
    if connective == "not":
        return ("not", proposition(source, depth - 1))
    return (connective, proposition(source, depth - 1), proposition(source, source.randrange(depth)))


def truth_table(tree: Proposition) -> Hashable:
    rows = itertools.product((False, True), repeat=3)
    return tuple(_holds(tree, dict(zip("pqr", row, strict=True))) for row in rows)


def _holds(tree: Proposition, values: dict[str, bool]) -> bool:
    if isinstance(tree, str):
        return values[tree]
    inner = [_holds(part, values) for part in tree[1:]]
    if tree[0] == "not":
        return not inner[0]
    left, right = inner
    return {"and": left and right, "or": left or right, "implies": right or not left, "iff": left == right}[tree[0]]


_SIGNS = (
    {"not": r"\neg ", "and": r" \land ", "or": r" \lor ", "implies": r" \implies ", "iff": r" \iff "},
    {"not": "¬", "and": " ∧ ", "or": " ∨ ", "implies": " → ", "iff": " ↔ "},
)


def write_proposition(tree: Proposition) -> list[str]:
    """The first is a connective, so that it can only be read as logic."""
    whole = ("not", ("not", tree))
    return [_shown(form, signs) for form in (whole, ("and", whole, tree), ("or", tree, whole)) for signs in _SIGNS]


def _shown(tree: Proposition, signs: dict[str, str]) -> str:
    if isinstance(tree, str):
        return tree
    inner = [part if isinstance(part, str) else f"({_shown(part, signs)})" for part in tree[1:]]
    return signs["not"] + inner[0] if tree[0] == "not" else signs[tree[0]].join(inner)
