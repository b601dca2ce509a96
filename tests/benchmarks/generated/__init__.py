"""Pairs of answers whose equality is known by construction, kind by kind."""

from __future__ import annotations

import random
from collections.abc import Iterator

from generated import cheats, expressions, families, numbers, sets
from generated.kind import Kind, Pair, change_number, change_pair, said, same_tree

KINDS: dict[str, Kind] = {
    "integer": Kind(numbers.integer, same_tree, numbers.write_integer, change_number),
    "fraction": Kind(numbers.fraction, same_tree, numbers.write_fraction, change_number),
    "percentage": Kind(numbers.percentage, same_tree, numbers.write_percentage, change_number),
    "surd": Kind(numbers.surd, same_tree, numbers.write_surd, numbers.change_surd),
    "complex": Kind(numbers.complex_number, same_tree, numbers.write_complex, change_pair),
    "base": Kind(numbers.based, same_tree, numbers.write_based, lambda t, s: (t[0] + s.randint(1, 9), t[1])),
    "deep number": Kind(
        expressions.number_tree,
        expressions.expression_value,
        expressions.write_expression,
        expressions.change_expression,
    ),
    "deep function": Kind(
        expressions.function_tree,
        expressions.expression_value,
        expressions.write_expression,
        expressions.change_expression,
    ),
    "tuple": Kind(sets.several, same_tree, sets.write_tuple, sets.change_several),
    "set": Kind(sets.several, frozenset, sets.write_set, sets.change_several),
    "nested set": Kind(sets.nested_set, same_tree, sets.write_nested_set, sets.change_nested_set),
    "union": Kind(sets.union, same_tree, sets.write_union, sets.change_union),
    "half-line": Kind(sets.half_line, same_tree, sets.write_half_line, sets.change_half_line),
    "family": Kind(families.family, families.family_value, families.write_family, families.change_family),
    "congruence": Kind(families.congruence, same_tree, families.write_congruence, families.change_congruence),
    "progression": Kind(
        families.progression, families.progression_value, families.write_progression, families.change_progression
    ),
    "proposition": Kind(
        families.proposition, families.truth_table, families.write_proposition, families.change_proposition
    ),
}
NAMES = [*KINDS, *cheats.CHEATS]


def pairs(seed: int, kinds: list[str] | None = None) -> Iterator[Pair]:
    """Pairs without end, every kind in turn, accepts and rejects in turn."""
    source = random.Random(seed)
    while True:
        for name in kinds or NAMES:
            if name in cheats.CHEATS:
                yield cheats.drawn(name, source)
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
