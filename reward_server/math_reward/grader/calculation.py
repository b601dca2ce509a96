"""The result of a calculation that cannot be read as one: its sides have units, decimal commas or clock times.

"72 km/h × (1000 m / 3600 s) = 20 m/s", "84,60 € : 4 = 21,15 €", "10:45 + 3:40 = 14:25". The last side is the answer,
unless another side that can be read says something else.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable
from types import NoneType

from math_reward.grader.errors import NotMathematics, TooComplex, Undefined
from math_reward.grader.notation.normalise import normalise
from math_reward.grader.notation.parse import MAX_CHARACTERS, parse
from math_reward.grader.notation.syntax import Node, Quantity, Relation, symbols
from math_reward.grader.reading import Reference
from math_reward.grader.rules import RULES
from math_reward.grader.rules.comparison import Comparison
from math_reward.grader.rules.labels import Contradiction
from math_reward.grader.verdict import Grade, Options

_EQUALS = re.compile(r"(?<![<>!:=])(?:=+|≈|\\approx(?![a-z])|\\simeq(?![a-z]))(?![<>=])")
_APPROXIMATES = re.compile(r"(?:≈|\\approx(?![a-z])|\\simeq(?![a-z]))[^=≈]{1,40}\Z")
# 0,875 and 21,15; 1,000 is a thousand.
_COMMA = re.compile(r"(?<![\d.,])(0(?=,\d{3})|\d{1,9}(?!,\d{3}(?!\d))),(\d{1,6})(?![\d.,])")
_CLOCK = re.compile(r"(?<![\d:.])([0-2]?\d):([0-5]\d)(?![\d:])")
# Other relations, lists and alternatives
_MORE = re.compile(
    r"[<>≠≤≥∈;]|!=|\\(?:not|neq?|leq?|geq?|in|lt|gt|equiv|pm|begin|sum|prod|int|lim)(?![a-z])|,\s|\b(?:and|or)\b"
)
_NUMBER_OR_NAME = re.compile(r"\d|^\s*[\\a-zA-Z]")
_NAME_ALONE = re.compile(r"[\s*]*\\?[a-zA-Z]+(?:_\{?\w+\}?)?[\s*]*")
_DOLLAR = re.compile(r"(?<!\\)\$")
MAX_SIDES = 8


def by_result(
    text: str, reference: Reference, options: Options, compare: Callable[[Reference, str], Grade], *, contradicts: bool
) -> Grade | None:
    """The grade of a calculation by its last side, if that is the reference and no other side denies it; else None.

    Args:
        text: the answer, which was not accepted as a whole.
        reference: a usable one that is no equation.
        options: how numbers are compared.
        compare: grades the last side alone.
        contradicts: whether two sides differ as they are written, so that only another spelling can help.
    """
    is_equation = "=" in reference.normal and isinstance(reference.reading.tree, Relation)
    sides = (
        [] if len(text) > MAX_CHARACTERS or is_equation or _MORE.search(text) else _EQUALS.split(_DOLLAR.sub("", text))
    )
    if not 1 < len(sides) <= MAX_SIDES or not all(_NUMBER_OR_NAME.search(side) for side in sides):
        return None
    decimal = [_COMMA.sub(r"\1.\2", side) for side in sides]
    if decimal != sides:
        sides = decimal
    readings = [_parsed(side) for side in sides]
    has_time = all(map(_CLOCK.search, sides[-2:]))
    # Without a unit, a time or something that cannot be read, the equation is compared as a whole.
    may_help = sides is decimal or has_time or (not contradicts and _has_unit_or_words(sides, readings))
    graded = compare(reference, sides[-1].strip()) if may_help else None
    is_rounded = readings[-1] is not None and not symbols(readings[-1]) and _APPROXIMATES.search(text)
    if graded is not None and not graded.correct and is_rounded:
        graded = compare(reference, sides[-2].strip())  # ... = π/6 rad ≈ 0.5236
    if graded is None or not graded.correct:
        return None
    return graded if _agree(readings, Comparison(dataclasses.replace(options, allow_rounded=True), RULES)) else None


def _has_unit_or_words(sides: list[str], readings: list[Node | None]) -> bool:
    """Whether a side, other than a name, has a unit or cannot be read."""
    return any(
        isinstance(reading, (Quantity, NoneType)) and not _NAME_ALONE.fullmatch(side)
        for side, reading in zip(sides, readings, strict=True)
    )


def _agree(readings: list[Node | None], comparison: Comparison) -> bool:
    """Whether every two neighbours among the sides that can be read, and have no letters, are the same."""
    known = [reading for reading in readings if reading is not None and not symbols(reading)]
    try:
        return all(comparison.same_value(left, right) for left, right in itertools.pairwise(known))
    except (TooComplex, Undefined, Contradiction):
        return False


def _parsed(side: str) -> Node | None:
    """A side, its clock times as minutes; None if it cannot be read."""
    minutes = _CLOCK.sub(lambda time: str(60 * int(time[1]) + int(time[2])), side)
    try:
        return parse(normalise(minutes))
    except (NotMathematics, TooComplex):
        return None
