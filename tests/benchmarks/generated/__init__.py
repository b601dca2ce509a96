"""Pairs of answers whose equality is known by construction, kind by kind."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

from generated import cheats, expressions, families, numbers, sets

Tree = Any
"""The parameters of one answer: a number, a sign, a truth value, or a tuple of trees."""


class Pair(NamedTuple):
    """A reference and a completion, and whether they are equal."""

    kind: str
    reference: str
    completion: str
    same: bool


def itself(tree: Tree) -> Hashable:
    return tree


def changed(tree: Tree, source: random.Random) -> Tree:
    """The tree with one thing in it changed: a number, a sign, a letter, an end, an element."""
    if isinstance(tree, bool):
        return not tree
    if isinstance(tree, (int, Fraction)):
        return tree + 1
    if isinstance(tree, str):
        return {"+": "-", "-": "+", "p": "q", "q": "p", "and": "or", "or": "and", "N": "Z", "Z": "N"}.get(tree, tree)
    place = source.randrange(len(tree))
    return (*tree[:place], changed(tree[place], source), *tree[place + 1 :])


class Kind(NamedTuple):
    """A kind of answer."""

    draw: Callable[[random.Random], Tree]
    write: Callable[[Tree], list[str]]
    """The notations of a tree."""
    value: Callable[[Tree], Hashable] = itself
    """What two trees have in common that mean the same."""
    change: Callable[[Tree, random.Random], Tree] = changed
    """A tree in which one thing is another."""


def _scaled(number: Any, source: random.Random) -> Any:
    return source.choice([-number, number + 1, 10 * number])


def _turned(tree: tuple[Tree, ...], source: random.Random) -> tuple[Tree, ...]:
    """Changed, or with one part fewer, or in another order."""
    return source.choice([changed(tree, source), tree[1:], tree[::-1]])


KINDS: dict[str, Kind] = {
    "integer": Kind(numbers.integer, numbers.write_integer, change=_scaled),
    "fraction": Kind(numbers.fraction, numbers.write_fraction, change=_scaled),
    "surd": Kind(numbers.surd, numbers.write_surd),
    "complex": Kind(numbers.complex_number, numbers.write_complex, change=_turned),
    "base": Kind(numbers.based, numbers.write_based, lambda tree: tree[0]),
    "deep number": Kind(expressions.number, expressions.write, expressions.value),
    "deep function": Kind(expressions.function, expressions.write, expressions.value),
    "tuple": Kind(sets.several, sets.write_tuple, change=_turned),
    "set": Kind(sets.several, sets.write_set, frozenset, _turned),
    "nested set": Kind(sets.nested_set, sets.write_nested_set, sets.of_sets, _turned),
    "union": Kind(sets.union, sets.write_union),
    "half-line": Kind(sets.half_line, sets.write_half_line),
    "family": Kind(families.family, families.write_family, families.family_value),
    "progression": Kind(families.progression, families.write_progression, families.progression_value),
    "proposition": Kind(families.proposition, families.write_proposition, families.truth_table),
}
NAMES = [*KINDS, *cheats.CHEATS]
_SAYINGS = [
    r"So the answer is $\boxed{%s}$.",
    r"First I get \boxed{17}, but no: \boxed{%s}<|im_end|>",
    r"<think>\boxed{99}</think> It is \fbox{%s}",
    r"\boxed{\displaystyle %s\ .}",
    "Adding up, we are done.\n\n**Answer:** $%s$",
    "所以答案是$%s$。",
    "<answer>$%s$</answer>",
]


def said(answer: str, source: random.Random) -> str:
    """A completion that ends with ``answer``; words stand in a box."""
    boxed = "\\text" in answer or not answer.isascii()
    return source.choice(_SAYINGS[:4] if boxed else _SAYINGS).replace("%s", answer)


def pairs(seed: int, kinds: list[str] | None = None) -> Iterator[Pair]:
    """Pairs without end, every kind in turn, accepts and rejects in turn."""
    source = random.Random(seed)
    while True:
        for name in kinds or NAMES:
            if name in cheats.CHEATS:
                reference, answers = cheats.CHEATS[name](source)
                yield Pair(name, reference, rf"\boxed{{{source.choice(answers)}}}", False)
                continue
            kind = KINDS[name]
            tree = kind.draw(source)
            texts = kind.write(tree)
            reference = source.choice(texts)
            answers = [text for text in texts if text != reference] or texts
            yield Pair(name, reference, said(source.choice(answers), source), True)
            other = kind.change(tree, source)
            if kind.value(other) != kind.value(tree):
                yield Pair(name, reference, said(source.choice(kind.write(other)), source), False)
