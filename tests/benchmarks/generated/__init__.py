"""Pairs of answers whose equality is known by construction, kind by kind."""

# ruff: noqa: E501

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from fractions import Fraction

from generated import cheats, expressions, families, functions, gatherings, last_place, measured, numbers, readings
from generated.kind import Kind, Pair, change_number, change_pair, same_tree
from generated.writings import said

KINDS: dict[str, Kind] = {
    "integer": Kind(numbers.integer, same_tree, numbers.write_integer, change_number),
    "fraction": Kind(numbers.fraction, same_tree, numbers.write_fraction, change_number),
    "surd": Kind(numbers.surd, same_tree, numbers.write_surd, numbers.change_surd),
    "logarithm": Kind(numbers.logarithm, lambda tree: tree[1] ** tree[0], numbers.write_logarithm, lambda t, s: (t[0] + s.choice([1, 2]), t[1])),
    "angle": Kind(numbers.angle, same_tree, numbers.write_angle, change_number),
    "complex": Kind(numbers.complex_number, same_tree, numbers.write_complex, change_pair),
    "polynomial": Kind(functions.polynomial, functions.expanded, functions.write_polynomial, functions.change_triple),
    "rational function": Kind(functions.polynomial, same_tree, functions.write_rational_function, functions.change_triple),
    "equation": Kind(functions.line_equation, functions.line_value, functions.write_equation, functions.change_triple),
    "circle": Kind(lambda s: (s.randint(-6, 6), s.randint(1, 6), s.randint(1, 30)), same_tree, functions.write_circle, functions.change_triple),
    "tuple": Kind(gatherings.several, same_tree, gatherings.write_tuple, gatherings.change_tuple),
    "set": Kind(gatherings.several, frozenset, gatherings.write_set, gatherings.change_tuple),
    "nested set": Kind(
        gatherings.nested_set, lambda tree: frozenset(map(frozenset, tree)), gatherings.write_nested_set, gatherings.change_nested_set
    ),
    "union": Kind(gatherings.union, same_tree, gatherings.write_union, gatherings.change_union),
    "half-line": Kind(gatherings.half_line, same_tree, gatherings.write_half_line, gatherings.change_half_line),
    "matrix": Kind(gatherings.matrix, same_tree, gatherings.write_matrix, gatherings.change_matrix),
    "family": Kind(families.family, families.family_value, families.write_family, families.change_family),
    "congruence": Kind(families.congruence, families.congruence_value, families.write_congruence, families.change_congruence),
    "ratio": Kind(families.ratio, lambda tree: Fraction(*tree), families.write_ratio, change_pair),
    "named values": Kind(families.named, same_tree, families.write_named, change_pair),
    "length": Kind(measured.length, lambda tree: tree[0] * measured.LENGTHS[tree[1]], measured.write_length, measured.change_length),
    "compound unit": Kind(measured.speed, same_tree, measured.write_speed, measured.change_speed),
    "money": Kind(measured.money, same_tree, measured.write_money, change_number),
    "base": Kind(numbers.based, same_tree, numbers.write_based, lambda t, s: (t[0] + s.randint(1, 9), t[1])),
    "time of day": Kind(measured.clock, same_tree, measured.write_clock, lambda tree, source: ((tree[0] % 11) + 1, tree[1])),
    "word": Kind(lambda s: s.choice(measured.WORDS), str.lower, measured.write_word, lambda tree, s: s.choice(measured.WORDS)),
    "number in words": Kind(lambda s: s.randint(0, 12), same_tree, numbers.write_spelled, lambda n, s: (n + s.randint(1, 12)) % 13),
    "millions": Kind(lambda s: s.randint(2, 99), same_tree, numbers.write_millions, lambda n, s: n + s.choice([1, 9 * n])),
    "Chinese units": Kind(lambda s: s.randint(10, 999), same_tree, numbers.write_chinese, lambda n, s: n + s.choice([1, 9 * n])),
    "choices": Kind(numbers.choices, lambda tree: math.comb(*tree), numbers.write_choices, lambda t, s: (t[0] + s.choice([1, 2]), t[1])),
    "sum": Kind(lambda s: s.randint(3, 60), same_tree, numbers.write_sum, lambda n, s: n + s.choice([1, -1])),
    "percentage": Kind(numbers.percentage, same_tree, numbers.write_percentage, numbers.change_percentage),
    "phasor": Kind(numbers.phasor, same_tree, numbers.write_phasor, numbers.change_phasor),
    "deep number": Kind(expressions.number_tree, expressions.expression_value, expressions.write_expression, expressions.change_expression),
    "deep function": Kind(expressions.function_tree, expressions.expression_value, expressions.write_expression, expressions.change_expression),
    "system": Kind(functions.system, same_tree, functions.write_system, change_pair),
    "derivative": Kind(functions.power, same_tree, functions.write_derivative, functions.change_power),
    "antiderivative": Kind(functions.power, same_tree, functions.write_antiderivative, functions.change_power),
    "general solution": Kind(functions.power, same_tree, functions.write_general_solution, functions.change_power),
    "listed family": Kind(families.listed, families.listed_value, families.write_listed, families.change_listed),
    "progression": Kind(families.progression, families.progression_value, families.write_progression, families.change_progression),
    "sequence": Kind(families.sequence, same_tree, families.write_sequence, families.change_sequence),
    "formula of pi": Kind(families.formula_of_pi, same_tree, families.write_formula_of_pi, families.change_formula_of_pi),
    "formula": Kind(families.formula, same_tree, families.write_formula, families.change_formula),
    "given constant": Kind(families.given_constant, same_tree, families.write_given_constant, lambda t, s: (t[0], t[1] + s.choice([-3, 1, 5]))),
    "whole numbers": Kind(functions.whole, same_tree, functions.write_whole, functions.change_whole),
    "proposition": Kind(families.proposition, families.truth_table, families.write_proposition, families.change_proposition),
    "numbered parts": Kind(gatherings.several, same_tree, gatherings.write_parts, gatherings.change_tuple),
    "duration": Kind(measured.duration, lambda tree: 60 * tree[0] + tree[1], measured.write_duration, measured.change_duration),
    "date": Kind(measured.day, same_tree, measured.write_day, measured.change_day),
    "expression and its value": Kind(lambda s: s.randint(12, 900), same_tree, readings.write_named_value, lambda n, s: n + s.choice([1, -1, 10 * n])),
    "words around a value": Kind(lambda s: s.randint(12, 900), same_tree, readings.write_words_around, readings.change_words_around),
    "choice": Kind(lambda s: s.choice(readings.LETTERS), same_tree, readings.write_choice, lambda t, s: s.choice(readings.LETTERS)),
    "unit with a prefix": Kind(readings.resistance, readings.resistance_value, readings.write_resistance, readings.change_resistance),
    "labelled point": Kind(lambda s: (s.randint(-9, 9), s.randint(-9, 9)), same_tree, readings.write_labelled_point, change_pair),
    "opposite signs": Kind(readings.opposite_signs, readings.opposite_value, readings.write_opposite, readings.change_opposite),
    "font and colour": Kind(numbers.fraction, same_tree, readings.write_styled, change_number),
    "letters that are a word": Kind(readings.word_formula, readings.word_value, readings.write_word_formula, readings.change_word_formula),
    "factor before brackets": Kind(readings.factor_before_brackets, same_tree, readings.write_factor, readings.change_factor),
    "SymPy's names": Kind(readings.sympy_name, same_tree, readings.write_sympy, readings.change_sympy),
    "Greek in ASCII": Kind(readings.greek, same_tree, readings.write_greek, readings.change_greek),
    "thousands in a fraction": Kind(lambda s: s.randint(1_000, 99_999), same_tree, readings.write_thousands, change_number),
    "chain of equations": Kind(readings.chain, readings.chain_value, readings.write_chain, readings.change_chain),
    "conjugates": Kind(lambda s: (s.randint(1, 9), s.choice([-3, -2, -1, 1, 2, 3])), same_tree, readings.write_conjugates, change_pair),
    "power of -1": Kind(readings.signs_by_letter, readings.sign_value, readings.write_signs_by_letter, readings.change_signs_by_letter),
    "signs of Unicode": Kind(lambda s: (s.randint(2, 9), s.randint(1, 9)), same_tree, readings.write_signs, readings.change_signs),
}  # fmt: skip

# Of these only a reference may leave something to be done; it is the first writing.
REFERENCE_FIRST = frozenset(
    [
        "sum", "system", "derivative", "antiderivative", "general solution", "formula", "whole numbers", "SymPy's names",
        "expression and its value", "words around a value", "choice", "factor before brackets", "chain of equations", "power of -1", "labelled point",
    ]
)  # fmt: skip


NAMES = [*KINDS, "last place", *cheats.CHEATS]


def pairs(seed: int, kinds: list[str] | None = None) -> Iterator[Pair]:
    """Pairs without end, every kind in turn, accepts and rejects in turn."""
    source = random.Random(seed)
    names = kinds or NAMES
    while True:
        for name in names:
            if name == "last place":
                yield last_place.drawn(source)
                continue
            if name in cheats.CHEATS:
                yield cheats.drawn(name, source)
                continue
            kind = KINDS[name]
            tree = kind.draw(source)
            texts = kind.write(tree)
            reference = texts[0 if name in REFERENCE_FIRST else source.randrange(len(texts))]
            answers = [text for text in texts[1:] if text != reference] or texts[1:]
            yield Pair(name, reference, said(source.choice(answers), source), True)
            other = kind.change(tree, source)
            if kind.value(other) != kind.value(tree):
                yield Pair(name, reference, said(source.choice(kind.write(other)[1:]), source), False)
