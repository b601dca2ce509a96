"""The second readings of an answer that the rules reject: a choice with its text, a family with other parameters,
other commas, a named value, a remainder. ``SECOND_READINGS`` is the order in which they are tried.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from math_reward.grader.errors import NotMathematics, TooComplex, Undefined
from math_reward.grader.notation.declarations import declared
from math_reward.grader.notation.parse import parse
from math_reward.grader.notation.syntax import (
    BigOperator,
    Bracketed,
    Call,
    Collection,
    Negative,
    Node,
    Number,
    Product,
    Quantity,
    Quotient,
    Relation,
    Symbol,
    symbols,
)
from math_reward.grader.reading import Answer, Reference
from math_reward.grader.rules.comparison import Comparison
from math_reward.grader.rules.families import same_family
from math_reward.grader.rules.labels import Contradiction, value_of_expression
from math_reward.grader.rules.relations import is_remainder
from math_reward.grader.words.doubts import says
from math_reward.grader.words.letters import behind_text, with_text, with_text_in_brackets

_GROUPED = re.compile(r"\d,\d{3}(?!\d)")
_GROUP_FROM_ZERO = re.compile(r",0\d\d")
_PLAIN_LIST = re.compile(r"-?[\d.]+(?: ?, ?-?[\d.]+)+")
_DECIMAL_COMMA = re.compile(r"(-?\d+),(\d+)")


class Sides(NamedTuple):
    """A reference and an answer as wholes, and their trees with each letter in the other side's meaning."""

    reference: Reference
    answer: Answer
    expected: Node
    tree: Node
    parameters: frozenset[str]
    """The letters of the reference that the prompt makes arbitrary."""


class SecondReading(NamedTuple):
    """Another way to take an answer that the rules reject."""

    name: str
    sentence: str
    """It in one sentence, which the service's page shows."""
    example: tuple[str, str, str]
    """A reference, an answer that this reading accepts and one that it rejects."""
    same: Callable[[Comparison, Sides], bool]


_TRIGONOMETRIC = ("sin", "cos", "tan", "cot", "sec", "csc")
_UNIT_VECTOR = re.compile(r"(?<![a-zA-Z\\{])([ijk])(?![a-zA-Z}])")


def is_choice(comparison: Comparison, reference: Reference, answer: Answer) -> bool:
    """Whether ``answer`` is a choice with its letter and its text: "(C) 42" for the reference C, or for 42."""
    choice = with_text(answer.normal)
    expected = reference.reading.tree
    if choice is None:
        choice = with_text_in_brackets(answer.text) or behind_text(answer.text, is_named=True)
        if choice is None or not isinstance(expected, Symbol):
            return False
        return expected.name == choice[0] and is_value(choice[1])
    letter, text = choice
    if letter.islower() and symbols(expected):
        return False  # (a) b is a product.
    if isinstance(expected, Symbol):
        return expected.name == letter and says("letter", text) is None
    try:
        return comparison.same(expected, parse(text))
    except (NotMathematics, TooComplex, Undefined, Contradiction):
        return False


def is_value(text: str) -> bool:
    """Whether a text is one number as it is written, with a unit or without one."""
    try:
        tree = parse(text)
    except (NotMathematics, TooComplex):
        return False
    tree = tree.value if isinstance(tree, Quantity) else tree
    tree = tree.operand if isinstance(tree, Negative) else tree
    parts = (tree.numerator, tree.denominator) if isinstance(tree, Quotient) else (tree,)
    return all(isinstance(part, Number) for part in parts)


def _same_family(comparison: Comparison, sides: Sides) -> bool:
    (_, ranges), (_, domains) = sides.reference.reading, sides.answer.reading
    ranges, domains = ranges | declared(sides.reference.normal), domains | declared(sides.answer.normal)
    return same_family(comparison, sides.expected, sides.tree, ranges, domains, sides.parameters)


def _has_places(number: Number, places: str) -> bool:
    """Whether a number is written with these decimal places, or with fewer noughts at their end."""
    return number.places is not None and len(places.rstrip("0")) <= number.places <= len(places)


def _is_list(text: str) -> bool:
    """Whether a number with commas may be a list: ``100,200``, and not ``10,000``."""
    return _GROUPED.search(text) is not None and _GROUP_FROM_ZERO.search(text) is None


def _same_with_other_commas(comparison: Comparison, sides: Sides) -> bool:
    """Whether the two are the same if their commas are read in the other way.

    ``100,200`` is a list if the other side is one; ``2,5`` is two and a half if the other side has as many places.
    """
    reference, answer, tree = sides.reference, sides.answer, sides.tree
    other = reference.reading.tree
    decimal = _DECIMAL_COMMA.fullmatch(answer.normal)
    try:
        said = _DECIMAL_COMMA.fullmatch(reference.text.strip())
        if (
            said
            and type(tree) is Number
            and tree.places == len(said[2])
            and (len(said[2]) != 3 or said[1] in ("0", "-0"))
        ):
            other = parse(f"{said[1]}.{said[2]}")
        elif decimal and type(other) is Number and type(tree) is Collection and _has_places(other, decimal[2]):
            tree = parse(f"{decimal[1]}.{decimal[2]}")
        elif type(tree) is Collection and _is_list(reference.text) and _PLAIN_LIST.fullmatch(answer.normal):
            other = parse(reference.text, thousands=False)
        elif type(other) is Collection and _is_list(answer.normal):
            tree = parse(answer.text, thousands=False)
        else:
            return False
        if type(other) is Collection and type(tree) is Collection:
            # A list that is read only because the other side is one must at least have its order.
            other, tree = (Bracketed("(", ")", side.items) for side in (other, tree))
    except (NotMathematics, TooComplex):
        return False  # It cannot be read in the other way.
    return comparison.same(other, tree)


def _same_numbered(comparison: Comparison, sides: Sides) -> bool:
    """Whether ``x_1 = 2, x_2 = 3`` are the values of a reference that gives them all to x: ``x = 2 or x = 3``."""
    items = sides.tree.items if isinstance(sides.tree, Collection) else ()
    names = [
        item.operands[0].name
        for item in items
        if isinstance(item, Relation) and item.operators == ("=",) and isinstance(item.operands[0], Symbol)
    ]
    bases = {name.partition("_")[0] for name in names}
    if len({*names}) != len(items) or len(bases) != 1 or not all("_" in name for name in names):
        return False
    letter = Symbol(bases.pop())
    values = tuple(Relation(("=",), (letter, item.operands[1])) for item in items if isinstance(item, Relation))
    return comparison.same(sides.expected, Collection("or", values))


def _same_vector(comparison: Comparison, sides: Sides) -> bool:
    """Whether ``2i - j + 3k`` has the components of a reference that is a tuple of two or three numbers."""
    expected, said = sides.expected, sides.answer.normal
    is_tuple = type(expected) is Bracketed and len(expected.items) in (2, 3) and not symbols(expected)
    if not is_tuple or "\\hat" in said or "j" not in _UNIT_VECTOR.findall(said):
        return False
    try:
        return comparison.same(expected, parse(_UNIT_VECTOR.sub(r"\\hat{\1}", said)))
    except (NotMathematics, TooComplex):
        return False


def _same_named_value(comparison: Comparison, sides: Sides) -> bool:
    """Whether the answer says of what the reference is the value: ``m + n = 10``, ``A(3, -2)``."""
    expected, tree = sides.expected, sides.tree
    if isinstance(tree, Product) and isinstance(expected, Bracketed) and len(tree.factors) == 2:
        name, point = tree.factors
        is_point = isinstance(name, Symbol) and name.name.isupper() and type(point) is Bracketed
        return is_point and not symbols(expected) and comparison.same_value(expected, point)
    if isinstance(tree, Collection) and tree.kind == "or" and not isinstance(expected, Collection):
        return all(comparison.same(expected, item) for item in tree.items)  # 1/4 or 0.25
    if symbols(expected) and isinstance(tree, Relation) and not isinstance(expected, Relation):
        # (x + 1)^2 = x^2 + 2x + 1
        return set(tree.operators) == {"="} and all(comparison.same_value(expected, side) for side in tree.operands)
    if isinstance(expected, Collection) and expected.kind == "or" and not isinstance(tree, Collection):
        return all(comparison.same(item, tree) for item in expected.items)  # two spellings of one value
    if isinstance(expected, Relation) and not isinstance(tree, Relation):
        named, given = expected.operands[0], expected.operands[-1]
        says_value = isinstance(named, BigOperator) or (isinstance(named, Call) and named.function in _TRIGONOMETRIC)
        is_value = says_value and set(expected.operators) == {"="} and not symbols(given)
        return is_value and comparison.same_value(given, tree)
    value = value_of_expression(comparison, expected, tree)
    return value is not None and comparison.same_value(expected, value)


CHOICE = SecondReading(
    "choice",
    "A choice may be given by its letter, its text or both.",
    ("C", "(C) 42", "(D) 42"),
    lambda comparison, sides: is_choice(comparison, sides.reference, sides.answer),
)
SECOND_READINGS = (
    CHOICE,
    SecondReading(
        "family",
        "Families are the same up to the names of their parameters and the order of their members.",
        (r"2\pi n", r"2\pi k + 2\pi", r"3\pi k"),
        _same_family,
    ),
    SecondReading(
        "commas",
        "A comma may set decimals apart or the items of a list, as the other side shows.",
        ("2.5", "2,5", "2,6"),
        _same_with_other_commas,
    ),
    SecondReading(
        "named value",
        "An answer may say of what it is the value.",
        ("(3, -2)", "A(3, -2)", "A(3, 2)"),
        _same_named_value,
    ),
    SecondReading(
        "numbered values",
        "The values of x may be numbered.",
        (r"x = 2 \text{ or } x = 3", "x_1 = 3, x_2 = 2", "x_1 = 3, x_2 = 4"),
        _same_numbered,
    ),
    SecondReading(
        "vector",
        "A vector may be given by i, j and k.",
        ("(2, -1, 3)", "2i - j + 3k", "2i + j + 3k"),
        _same_vector,
    ),
    SecondReading(
        "remainder",
        "A remainder may be given as a congruence.",
        ("3", r"3 \pmod 7", r"10 \pmod 7"),
        lambda comparison, sides: is_remainder(sides.expected, sides.tree),
    ),
)
