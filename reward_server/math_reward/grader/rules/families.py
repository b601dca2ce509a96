r"""Compares families with a parameter: ``k\pi`` is ``n\pi``, ``x^2 + C`` is ``x^2 + c``, and a union of progressions
is the same however it is divided.

Only the reference makes a family: it declares the parameter (``4k + 1, k \in \mathbb{Z}``), it counts multiples of pi
as solutions in trigonometry are written (``\frac{\pi}{6} + 2k\pi``), it gives a point of a line
(``(x, y) = (1 + 2t, 3 - t)``), it has a constant of integration C, or the prompt asks for all solutions and does not
know the letter. What the answer declares makes no family.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction

from math_reward.grader.mathematics.evaluation import Unknown, real_value
from math_reward.grader.mathematics.linear import first_degree
from math_reward.grader.notation.declarations import Domain, same_domain
from math_reward.grader.notation.exact import exact
from math_reward.grader.notation.syntax import (
    Bracketed,
    Collection,
    Congruence,
    Constant,
    Node,
    Number,
    Product,
    Relation,
    SetBuilder,
    SetOperation,
    Sum,
    Symbol,
    substituted,
    symbols,
    walk,
)
from math_reward.grader.rules.comparison import Comparison
from math_reward.grader.rules.expressions import CONSTANT, CONTINUOUS, OF_INTEGRATION, constant_of, same_up_to_constant
from math_reward.grader.rules.labels import clash, label_name, labels_of, without_label
from math_reward.grader.rules.trees import paired, values

MAX_RESIDUES = 64
MAX_FAMILIES = 8

_COUNTING = frozenset(["k", "n", "m", "l", "j", "p", "q", "N", "\\ell"])
"""The letters that may count without being declared: 2\\pi r is a circumference."""
_MULTIPLES = frozenset("knm")
"""The letters that count multiples of pi without being declared."""
_ANY_CONSTANT = re.compile(r"[A-DKMa-dkm](?:_\d)?")
_VARIABLE = re.compile(r"[tuxyz]|[CK]_\d|\\(?:theta|phi|tau)")
_PARAMETER = re.compile(r"[A-DKa-dj-nst](?:_\d)?|\\(?:alpha|beta|lambda|mu|ell)")
_ASKS_FOR_ALL = re.compile(
    r"\\int(?![a-z])|\b(?:antiderivative|indefinite integral|integrate|differential equation)"
    r"|\bgeneral (?:solution|form)"
    r"|\ball (?:\w+ ){0,3}(?:solution|function|root|value|number|integer|pair|triple|polynomial|sequence|angle)s"
    r"|\b(?:solve|family of)\b|通解|不定积分|原函数|微分方程|所有|全部",
    re.IGNORECASE,
)
_UNKNOWN_RANGE = ""

Progression = tuple[Node, Node]
"""A step and a start: ``start + step * k`` for all integers k."""


def asked_for(reference: Node, prompt: str) -> frozenset[str]:
    """The parameters of a reference: ``prompt`` asks for all solutions and does not name them."""
    names = {name for name in symbols(reference) if _PARAMETER.fullmatch(name)}
    if not names or not _ASKS_FOR_ALL.search(prompt):
        return frozenset()
    return frozenset(
        name for name in names if not re.search(rf"(?<![A-Za-z\\]){re.escape(name[0])}(?![A-Za-z])", prompt)
    )


def same_family(
    comparison: Comparison,
    reference: Node,
    answer: Node,
    ranges: Mapping[str, Domain],
    domains: Mapping[str, Domain],
    asked: frozenset[str],
) -> bool:
    """Whether both are the same family, up to the names of parameters and, if one is any integer, a shift.

    ``ranges`` are what the reference declares, ``domains`` what the answer does; ``asked`` is of ``asked_for``.
    """
    if not all(symbols(side) or isinstance(side, (Congruence, Relation)) for side in (reference, answer)):
        return False
    label, reference = without_label(comparison, reference)
    other, answer = without_label(comparison, answer)
    if other is not None and any(_names(other, name) for name in symbols(answer) - symbols(reference)):
        return False  # f(x) = 3x is a function of x, and no parameter.
    if label is not None and other is not None and clash(label, other):
        return False
    free: dict[str, Domain] = dict.fromkeys(asked, _UNKNOWN_RANGE)
    multiples = _counts_multiples_of_pi(comparison, reference)
    if multiples is not None:
        free[multiples] = "integers"
    elif label is not None and (parameter := _along_a_line(label, reference)) is not None:
        free[parameter] = _UNKNOWN_RANGE
    free |= ranges
    free = {name: domain for name, domain in free.items() if not _names(label, name)}
    points = _points(comparison, reference), _points(comparison, answer)
    if points[0] and points[1]:
        same = _same_line(comparison, points[0], points[1], free, domains)
        if same or not isinstance(reference, Bracketed):
            return same  # "x = 2 + 5t, y = 1 - 3t" is a point for each t, and no union of two families.
    return (
        _renamed(comparison, reference, answer, free, domains)
        or _same_progressions(comparison, reference, answer, free, domains)
        or same_up_to_constant(reference, answer, free, domains)
    )


def _names(label: Node | None, name: str) -> bool:
    """Whether a label has the letter: a_n and f(n) have the n, which counts terms and is no parameter."""
    if label is None:
        return False
    return name in symbols(label) or name in re.findall(r"\\?[a-zA-Z]+", label_name(label))


def _counts_multiples_of_pi(comparison: Comparison, node: Node) -> str | None:
    r"""The letter k of ``\frac{\pi}{6} + 2k\pi``, alone, in a list or at the ends of an interval; else None.

    The product ``(n - 2)\pi`` is no family: as one it would be written ``n\pi``.
    """
    names = symbols(node) & _MULTIPLES
    if len(names) != 1 or Constant("pi") not in walk(node):
        return None
    (name,) = names
    alone = not isinstance(node, (Bracketed, SetOperation, SetBuilder, Relation))
    for part in _expressions(node):
        if name not in symbols(part):
            continue
        line = first_degree(part, name) if symbols(part) == {name} else None
        if line is None or _ratio(comparison, line[0], Constant("pi"), math.pi) is None:
            return None
        step, start = real_value(line[0]), real_value(line[1])
        if not step or start is None:
            return None
        steps = start / step
        if alone and not isinstance(part, Sum) and round(steps) and abs(steps - round(steps)) < 1e-9:
            return None
    return name


def _along_a_line(label: Node, node: Node) -> str | None:
    """The t of ``(x, y) = (1 + 2t, 3 - t)``, the only letter beside the names of the coordinates; else None."""
    if not isinstance(label, Bracketed) or not isinstance(node, Bracketed) or len(symbols(node)) != 1:
        return None
    (name,) = symbols(node)
    moving = [item for item in node.items if name in symbols(item)]
    is_line = len(moving) > 1 and all(first_degree(item, name) is not None for item in moving)
    return name if is_line else None


def _expressions(node: Node) -> Iterator[Node]:
    """The single expressions in a list, an interval, a union or a relation."""
    for value in values(node):
        inner: tuple[Node, ...] = ()
        if isinstance(value, (Relation, SetOperation)):
            inner = value.operands
        elif isinstance(value, (Bracketed, Collection)):
            inner = value.items
        elif isinstance(value, SetBuilder):
            inner = (value.condition,)
        else:
            yield value
        for part in inner:
            yield from _expressions(part)


def _points(comparison: Comparison, node: Node) -> dict[str, Node]:
    """The coordinates of ``(2 + 5t, 1 - 3t)`` and of ``x = 2 + 5t, y = 1 - 3t`` by their names; else empty."""
    if isinstance(node, Bracketed):
        return {str(place): item for place, item in enumerate(node.items)}
    names = labels_of(comparison, list(node.items)) if isinstance(node, Collection) else None
    if names is None or not isinstance(node, Collection):
        return {}
    return {name: without_label(comparison, item)[1] for name, item in zip(names, node.items, strict=True)}


def _same_line(
    comparison: Comparison,
    reference: Mapping[str, Node],
    answer: Mapping[str, Node],
    free: Mapping[str, Domain],
    domains: Mapping[str, Domain],
) -> bool:
    """Whether both are the same points: one parameter is the other times a factor, plus a shift, in every coordinate.

    For whole numbers the factor is 1 or -1, and the shift is whole.
    """
    mine = set().union(*map(symbols, reference.values()))
    theirs = set().union(*map(symbols, answer.values()))
    if reference.keys() != answer.keys() or not len(mine) == len(theirs) == 1 or not mine <= free.keys():
        return False
    (name,), (other,) = mine, theirs
    whole = free[name] == "integers"
    if not _may_be(free, domains, name, other) or not (other in domains or _may_count(free, name, other)):
        return False
    lines = {key: (first_degree(reference[key], name), first_degree(answer[key], other)) for key in reference}
    if any(line is None or moved is None for line, moved in lines.values()):
        return False
    known = [(*line, *moved) for line, moved in lines.values() if line is not None and moved is not None]
    moving = next((part for part in known if real_value(part[0])), None)
    size = None if moving is None else real_value(moving[0])
    if moving is None or size is None:
        return False
    factor = _ratio(comparison, moving[2], moving[0], size)
    start, begin = real_value(moving[3]), real_value(moving[1])
    if factor is None or start is None or begin is None or (whole and abs(factor) != 1):
        return False
    shift = Fraction((start - begin) / size).limit_denominator(1000)
    return (not whole or shift.denominator == 1) and all(
        comparison.same_value(Product((Number(factor), step)), moved_step)
        and comparison.same_value(Sum((begin_at, Product((Number(shift), step)))), moved_begin)
        for step, begin_at, moved_step, moved_begin in known
    )


def _renamed(
    comparison: Comparison,
    reference: Node,
    answer: Node,
    free: Mapping[str, Domain],
    domains: Mapping[str, Domain],
) -> bool:
    if free and isinstance(reference, Collection) and isinstance(answer, Collection):
        return _items_renamed(comparison, list(reference.items), list(answer.items), free, domains)
    names, others = symbols(reference), symbols(answer)
    mine, theirs = sorted(names - others), sorted(others - names)
    indexed = sorted(name for name in names & others if CONSTANT.fullmatch(name) and "_" in name)
    if len(indexed) == 2 and not mine and not theirs:
        mine = theirs = indexed  # C_1 and C_2 are as good as C_2 and C_1.
    if len(mine) != len(theirs) or not 0 < len(mine) <= 2 or isinstance(reference, Symbol):
        return False
    are_free = free.keys() >= {*mine} and (
        domains.keys() >= {*theirs}
        or ({*theirs}.isdisjoint(domains) and all(_may_count(free, *pair) for pair in itertools.product(mine, theirs)))
    )
    if not are_free and not _are_constants(reference, mine, theirs):
        return False
    for order in itertools.permutations(mine):
        if not all(_may_be(free, domains, *pair) for pair in zip(order, theirs, strict=True)):
            continue
        renamed = substituted(answer, dict(zip(theirs, map(Symbol, order), strict=True)))
        if comparison.same(reference, renamed):
            return True
    return False


def _may_count(free: Mapping[str, Domain], name: str, other: str) -> bool:
    """Whether a letter without a range may stand for a parameter: a whole number is an n or a k, and no x or C."""
    return free.get(name, _UNKNOWN_RANGE) in CONTINUOUS or other.partition("_")[0] in _COUNTING


def _may_be(free: Mapping[str, Domain], domains: Mapping[str, Domain], name: str, other: str) -> bool:
    """Whether the ranges of two parameters agree; one that is not known agrees with any."""
    left, right = free.get(name, _UNKNOWN_RANGE), domains.get(other, _UNKNOWN_RANGE)
    return _UNKNOWN_RANGE in (left, right) or same_domain(left, right)


def _are_constants(reference: Node, mine: list[str], theirs: list[str]) -> bool:
    """Whether ``mine`` are constants of integration: C as a term or a factor, or c and K as a term."""
    names = symbols(reference)
    if not names > {*mine} or not all(map(_ANY_CONSTANT.fullmatch, theirs)):
        return False
    are_of_integration = all(map(OF_INTEGRATION.fullmatch, mine))
    if constant_of(reference) == mine[0] and all(
        map((CONSTANT if are_of_integration else OF_INTEGRATION).fullmatch, theirs)
    ):
        return True
    if not are_of_integration or not all(map(_VARIABLE.fullmatch, names - {*mine})):
        return False
    parts = list(_expressions(reference))
    return all(first_degree(part, name) is not None for name in mine for part in parts if name in symbols(part))


def _items_renamed(
    comparison: Comparison,
    items: list[Node],
    others: list[Node],
    free: Mapping[str, Domain],
    domains: Mapping[str, Domain],
) -> bool:
    """Whether two lists of families are the same in any order; each family may name its parameter differently."""
    if len(items) != len(others) or len(items) > MAX_FAMILIES:
        return False

    def same(item: Node, other: Node) -> bool:
        if comparison.same(item, other):
            return True
        (label, value), (second, candidate) = (without_label(comparison, node) for node in (item, other))
        if label is not None and second is not None and clash(label, second):
            return False
        return _renamed(comparison, value, candidate, free, domains)

    return paired(items, others, same)


def _same_progressions(
    comparison: Comparison,
    reference: Node,
    answer: Node,
    free: Mapping[str, Domain],
    domains: Mapping[str, Domain],
) -> bool:
    counted = {name for name, domain in free.items() if domain == "integers"}
    if not counted and not isinstance(reference, Congruence):
        return False
    other = {*(_COUNTING - domains.keys()), *(name for name, domain in domains.items() if domain == "integers")}
    left, right = _progressions(comparison, reference, counted), _progressions(comparison, answer, other)
    if not left or not right:
        return False
    try:
        return _same_residues(comparison, left, right)
    except Unknown:
        return False


def _progressions(comparison: Comparison, node: Node, letters: set[str]) -> list[Progression] | None:
    """The progressions in a list of expressions with one integer parameter; None if one is not a progression."""
    if isinstance(node, Congruence):
        modulus = exact(node.modulus)
        return None if modulus is None or modulus < 2 else [(node.modulus, node.residue)]
    labelled = [without_label(comparison, item) for item in values(node)]
    names = set().union(*(symbols(value) for _, value in labelled))
    if len(names) != 1 or not names <= letters:
        return None
    (name,) = names
    progressions: list[Progression] = []
    for label, value in labelled:
        line = first_degree(value, name) if symbols(value) == {name} and not _names(label, name) else None
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
