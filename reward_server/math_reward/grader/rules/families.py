r"""Compares families with a parameter: ``k\pi`` is ``n\pi``, ``x^2 + C`` is ``x^2 + c``, and a union of progressions
is the same however it is divided.
"""

from __future__ import annotations

import itertools
import math
import re
from fractions import Fraction

from math_reward.grader.mathematics.evaluation import Unknown, real_value
from math_reward.grader.mathematics.linear import first_degree
from math_reward.grader.notation.syntax import (
    Bracketed,
    Collection,
    Congruence,
    Constant,
    Node,
    Number,
    Product,
    Relation,
    Sum,
    Symbol,
    substituted,
    symbols,
    walk,
)
from math_reward.grader.rules.comparison import Comparison
from math_reward.grader.rules.constants import CONSTANT, same_up_to_constant
from math_reward.grader.rules.labels import without_label
from math_reward.grader.rules.trees import paired, values

MAX_RESIDUES = 64
MAX_FAMILIES = 8

_INTEGERS = frozenset(["k", "n", "m", "l", "j", "p", "q", "r", "s", "t", "\\ell"])
_ALONG_A_LINE = frozenset(["s", "t", "u", "\\lambda", "\\mu"])
_ANY_CONSTANT = re.compile(r"[A-DKMa-dkm](?:_\d)?")
_VARIABLE = re.compile(r"[a-z]|[CK]_\d|\\\\(?:theta|phi|tau|alpha|omega|lambda)")
_DECLARED = re.compile(
    r"\\in ?\\mathbb|\\in ?[ZNRQ]\b|\b(?:integers?|for (?:some|any|all|every)|arbitrary|constants?|real numbers?)\b"
)


Progression = tuple[Node, Node]
"""A step and a start: ``start + step * k`` for all integers k."""


def same_family(
    comparison: Comparison, reference: Node, answer: Node, texts: tuple[str, str], *, declared: bool
) -> bool:
    """Whether both are the same family, up to the parameter's name and, if it is an integer, its shift.

    ``texts`` are both sides as they were written. A name counts as a parameter if one of them says so, if it counts
    multiples of pi, or if both have an arbitrary constant. ``declared``: the ranges are known and agree.
    """
    if not all(symbols(side) or isinstance(side, (Congruence, Relation)) for side in (reference, answer)):
        return False
    declared = declared or any(_DECLARED.search(text) for text in texts)
    _, reference = without_label(comparison, reference)
    _, answer = without_label(comparison, answer)
    return (
        _renamed(comparison, reference, answer, declared)
        or _same_progressions(comparison, reference, answer, declared)
        or same_up_to_constant(reference, answer)
    )


def _renamed(comparison: Comparison, reference: Node, answer: Node, declared: bool) -> bool:
    if declared and isinstance(reference, Collection) and isinstance(answer, Collection):
        return _items_renamed(comparison, list(reference.items), list(answer.items))
    names, others = symbols(reference), symbols(answer)
    mine, theirs = sorted(names - others), sorted(others - names)
    indexed = sorted(name for name in names & others if CONSTANT.fullmatch(name) and "_" in name)
    if len(indexed) == 2 and not mine and not theirs:
        mine = theirs = indexed  # C_1 and C_2 are as good as C_2 and C_1.
    if len(mine) != len(theirs) or not 0 < len(mine) <= 2 or isinstance(reference, Symbol):
        return False
    constants = all(map(CONSTANT.fullmatch, mine)) and all(map(_ANY_CONSTANT.fullmatch, theirs))
    constants = constants and names > {*mine} and all(map(_VARIABLE.fullmatch, names - {*mine}))
    if not constants and not _are_parameters({*mine, *theirs}, reference, declared):
        return False
    for order in itertools.permutations(mine):
        renamed = substituted(answer, dict(zip(theirs, map(Symbol, order), strict=True)))
        if comparison.same(reference, renamed):
            return True
    return False


def _items_renamed(comparison: Comparison, items: list[Node], others: list[Node]) -> bool:
    """Whether two lists of families are the same in any order; each family may name its parameter differently."""
    if len(items) != len(others) or len(items) > MAX_FAMILIES:
        return False

    def same(item: Node, other: Node) -> bool:
        value, candidate = (without_label(comparison, node)[1] for node in (item, other))
        return comparison.same(item, other) or _renamed(comparison, value, candidate, declared=True)

    return paired(items, others, same)


def _are_parameters(names: set[str], node: Node, declared: bool) -> bool:
    if all(CONSTANT.fullmatch(name) for name in names):
        return True
    if declared or (names <= _ALONG_A_LINE and isinstance(node, Bracketed)):
        return True
    return names <= _INTEGERS and Constant("pi") in walk(node)


def _same_progressions(comparison: Comparison, reference: Node, answer: Node, declared: bool) -> bool:
    congruence = isinstance(reference, Congruence) or isinstance(answer, Congruence)
    if not (declared or congruence or Constant("pi") in walk(reference)):
        return False
    left, right = _progressions(comparison, reference), _progressions(comparison, answer)
    if not left or not right:
        return False
    try:
        return _same_residues(comparison, left, right)
    except Unknown:
        return False


def _progressions(comparison: Comparison, node: Node) -> list[Progression] | None:
    """The progressions in a list of expressions with one integer parameter; None if one is not a progression."""
    if isinstance(node, Congruence):
        return [(node.modulus, node.residue)]
    items = [without_label(comparison, item)[1] for item in values(node)]
    names = set().union(*map(symbols, items))
    if len(names) != 1 or not names <= _INTEGERS:
        return None
    (name,) = names
    progressions: list[Progression] = []
    for value in items:
        line = first_degree(value, name) if symbols(value) == {name} else None
        if line is None or not real_value(line[0]):
            return None
        progressions.append(line)
    return progressions


def _same_residues(comparison: Comparison, left: list[Progression], right: list[Progression]) -> bool:
    """Whether both are the same numbers modulo a common period. Floats propose matches, ``same_value`` decides."""
    unit = left[0][0]
    size = real_value(unit)
    periods = [_ratio(comparison, step, unit, size) for step, _ in [*left, *right]]
    if size is None or any(period is None for period in periods):
        return False
    known = [abs(period) for period in periods if period is not None]
    common = _common_multiple(known)
    mine = _residues(left, known[: len(left)], common)
    theirs = _residues(right, known[len(left) :], common)
    if mine is None or theirs is None:
        return False
    period = Product((Number(common), unit))
    return _covers(comparison, mine, theirs, period) and _covers(comparison, theirs, mine, period)


def _ratio(comparison: Comparison, step: Node, unit: Node, size: float | None) -> Fraction | None:
    """The ratio of ``step`` to ``unit`` if it is rational; else None."""
    value = real_value(step)
    if value is None or not size:
        return None
    ratio = Fraction(value / size).limit_denominator(1000)
    return ratio if ratio and comparison.same_value(step, Product((Number(ratio), unit))) else None


def _common_multiple(periods: list[Fraction]) -> Fraction:
    below = math.lcm(*(period.denominator for period in periods))
    return Fraction(math.lcm(*(int(period * below) for period in periods)), below)


def _residues(progressions: list[Progression], periods: list[Fraction], common: Fraction) -> list[Node] | None:
    counts = [int(common / period) for period in periods]
    if sum(counts) > MAX_RESIDUES:
        return None
    return [
        Sum((start, Product((Number(Fraction(index)), step))))
        for (step, start), count in zip(progressions, counts, strict=True)
        for index in range(count)
    ]


def _covers(comparison: Comparison, left: list[Node], right: list[Node], period: Node) -> bool:
    return all(any(_congruent(comparison, a, b, period) for b in right) for a in left)


def _congruent(comparison: Comparison, a: Node, b: Node, period: Node) -> bool:
    x, y, size = real_value(a), real_value(b), real_value(period)
    if x is None or y is None or not size:
        return False
    times = round((x - y) / size)
    if abs((x - y) / size - times) > 1e-9:
        return False
    return comparison.same_value(a, Sum((b, Product((Number(Fraction(times)), period)))))
