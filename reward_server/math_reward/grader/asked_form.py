r"""Whether an answer that is equal has the form that the prompt asks for: a product after "Factor", no decimal after
"as a fraction".

A form is asked for only if the reference has it too, so a phrase that means something else asks for nothing.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from math_reward.grader.errors import TooComplex, Undefined
from math_reward.grader.mathematics.undone import in_lowest_terms, result
from math_reward.grader.notation.exact import exact
from math_reward.grader.notation.syntax import (
    Bracketed,
    Call,
    Collection,
    Constant,
    Negative,
    Node,
    Number,
    Power,
    Product,
    Quantity,
    Quotient,
    Relation,
    Sum,
    symbols,
    walk,
)
from math_reward.grader.words.units import measure, unit_name

QUESTION_CHARACTERS = 500
"""How much of a prompt's end is searched for a phrase: few-shot examples before it ask for other forms."""
MAX_PRIME = 10**6
MAX_BY_HAND = 10**9
"""A sum of larger numbers may be left."""
_ORDER = re.compile(
    r"\b(?:order|arrange|sort|rank)\b.*\b(?:least|smallest|lowest|greatest|largest|highest|ascending|descending"
    r"|increasing|decreasing)\b|\bfrom (?:the )?(?:least|smallest|lowest|greatest|largest|highest) to\b"
    r"|从[小大]到[大小]|由[小大]到[大小]",
    re.IGNORECASE | re.DOTALL,
)


class Form(NamedTuple):
    """A form of an answer: its name, the phrases that ask for it, and whether a tree has it."""

    name: str
    phrases: re.Pattern[str]
    has: Callable[[Node], bool]
    example: tuple[str, str, str]
    """A prompt, a reference that has the form and an equal answer that has it not."""


def missing_form(answer: Node, reference: Node, prompt: str) -> str | None:
    """The name of a form that the prompt asks for, and the reference has and the answer has not; else None."""
    try:
        exact_part = answer.operands[0] if isinstance(answer, Relation) and answer.operators == ("~",) else answer
        return _missing(result(exact_part), result(reference), prompt[-QUESTION_CHARACTERS:])
    except (Undefined, TooComplex):
        return None


def _missing(said: Node, expected: Node, question: str) -> str | None:
    for form in FORMS:
        if form.phrases.search(question) and form.has(expected) and not form.has(said):
            return form.name
    if _FACTOR.search(question) and 1 < _factors(expected) > _factors(said):
        return "factored"
    if _ORDER.search(question) and _is_other_order(expected, said):
        return "in order"
    if isinstance(_value(expected), Number) and _is_unfinished(_value(said)):
        return "calculated to the end"
    units, others = _units(expected), _units(said)
    asked = {unit_name(word) for word in _IN_UNITS.findall(question)}
    if (
        others
        and others != units
        and (asked & units or (not units and _measures_alike(asked - others, others - asked)))
    ):
        return "in another unit"
    return None


def _measures_alike(asked: set[str], others: set[str]) -> bool:
    """Whether one of these units measures the same as one of the others: metres and kilometres."""
    dimensions = {found.dimension for unit in asked if (found := measure(unit)) is not None}
    return any(found is not None and found.dimension in dimensions for found in map(measure, others))


def _value(node: Node) -> Node:
    """A number without its unit and its sign."""
    while isinstance(node, (Quantity, Negative)):
        node = node.value if isinstance(node, Quantity) else node.operand
    return node


def _is_unfinished(node: Node) -> bool:
    """Whether a sum of plain numbers, a fraction of sums or products or the root of a sum is left: 288 + 5, 7 · 8 / 2.

    2^{10} - 1 and 5 + 1/2 are ways to write a number.
    """
    match node:
        case Sum(terms=parts):
            return all(isinstance(_value(part), Number) for part in parts) and _are_small(parts)
        case Quotient(numerator=above, denominator=below):
            return _are_small([part for part in (above, below) if isinstance(part, (Sum, Product))])
        case Call(function="sqrt", arguments=(Sum() as inside,)):
            return _are_small(inside.terms)
    return False


def _are_small(parts: Sequence[Node]) -> bool:
    values = [exact(part) for part in parts]
    return bool(values) and all(value is not None and abs(value) < MAX_BY_HAND for value in values)


def _is_other_order(expected: Node, said: Node) -> bool:
    """Whether two lists of the same things have them in different orders."""
    kinds = (Collection, Bracketed)
    if not isinstance(expected, kinds) or not isinstance(said, kinds) or len(expected.items) != len(said.items):
        return False

    def keys(items: Sequence[Node]) -> list[Hashable]:
        return [repr(item) if (value := exact(item)) is None else value for item in items]

    return keys(expected.items) != keys(said.items)


def _units(node: Node) -> set[str]:
    return {part.unit for part in walk(node) if isinstance(part, Quantity)}


def _is_expanded(node: Node) -> bool:
    """Whether nothing is left to be multiplied out."""
    for part in walk(node):
        match part:
            case Product() if any(isinstance(factor, Sum) for factor in part.factors):
                return False
            case Power(base=Sum(), exponent=Number(value=Fraction(denominator=1) as times)) if times >= 2:
                return False
    return True


def _factors(node: Node) -> int:
    """How many factors with letters it has, with their multiplicity; one for a sum."""
    match node:
        case Negative():
            return _factors(node.operand)
        case Product():
            return sum(map(_factors, node.factors))
        case Quotient(denominator=Number()):
            return _factors(node.numerator)
        case Power(exponent=Number(value=Fraction(denominator=1) as times)) if 0 < times < 100:
            return int(times) * _factors(node.base)
    return int(bool(symbols(node)))


def _is_prime_factorization(node: Node) -> bool:
    factors = node.factors if isinstance(node, Product) else (node,)
    bases = [factor.base if isinstance(factor, Power) else factor for factor in factors]
    return all(isinstance(base, Number) and _is_prime(base.value) for base in bases)


def _is_prime(value: Fraction) -> bool:
    if value.denominator != 1 or not 1 < value < MAX_PRIME:
        return False
    return all(value.numerator % divisor for divisor in range(2, math.isqrt(value.numerator) + 1))


def _is_decimal(node: Node) -> bool:
    return isinstance(node, Number) and node.places is not None


def _has_no(*is_such: Callable[[Node], bool]) -> Callable[[Node], bool]:
    return lambda node: not any(such(part) for part in walk(node) for such in is_such)


def _is_simple(node: Node) -> bool:
    """Whether fractions are in lowest terms, roots without squares, and like terms together."""
    for part in walk(node):
        match part:
            case Quotient(numerator=above, denominator=below):
                if math.gcd(*_contents(above), *_contents(below)) > 1:
                    return False
            case Call(function="sqrt", arguments=(Number(value=value),)) if _has_square(value):
                return False
            case Sum() if _repeats(part.terms):
                return False
            case Product() if _repeats(tuple(part for part in part.factors if not isinstance(part, Sum))):
                return False
    return True


def _has_square(value: Fraction) -> bool:
    """Whether a root can be made smaller."""
    roots = range(2, min(math.isqrt(value.numerator), 999) + 1)
    return value.denominator > 1 or any(value.numerator % root**2 == 0 for root in roots)


def _contents(node: Node) -> Iterator[int]:
    """Whole numbers that divide a node, as it is written: 2 for ``2x`` and for ``2x+4``."""
    match node:
        case Number(value=Fraction(numerator=number, denominator=1)):
            yield number
        case Negative():
            yield from _contents(node.operand)
        case Product():
            yield math.prod(math.gcd(*_contents(factor)) for factor in node.factors)
        case Sum():
            yield math.gcd(*(number for term in node.terms for number in _contents(term)))
        case _:
            yield 1


def _repeats(parts: tuple[Node, ...]) -> bool:
    """Whether two terms differ by a number only, or two factors are the same."""
    kinds = Counter(map(_without_number, parts))
    return max(kinds.values(), default=0) > 1


def _without_number(node: Node) -> str:
    if isinstance(node, Negative):
        return _without_number(node.operand)
    if isinstance(node, Product):
        return "·".join(sorted(repr(factor) for factor in node.factors if exact(factor) is None))
    return "" if exact(node) is not None else repr(node)


def _is_calculated(node: Node) -> bool:
    """Whether a rational number is in lowest terms."""
    return exact(node) is None or in_lowest_terms(node)


def _asks(phrases: str) -> re.Pattern[str]:
    return re.compile(phrases, re.IGNORECASE)


FORMS = (
    Form(
        "expanded",
        _asks(r"\bexpand(?:ed)?\b|\bmultiply out\b|展开"),
        _is_expanded,
        ("Expand it.", "x^2+2x+1", "(x+1)^2"),
    ),
    Form(
        "in prime factors",
        _asks(r"\bprime factori[sz]ation\b|质因数"),
        _is_prime_factorization,
        ("Find the prime factorization of 12.", r"2^2 \cdot 3", r"4 \cdot 3"),
    ),
    Form(
        "in radians",
        _asks(r"\b(?:in|to|into) radians?\b|弧度"),
        _has_no(lambda part: isinstance(part, Quantity) and part.unit == "degree"),
        ("Give the angle in radians.", r"\frac{2\pi}{3}", r"120^\circ"),
    ),
    Form(
        "in degrees",
        _asks(r"\b(?:in|to|into) degrees\b|度数|多少度"),
        _has_no(lambda part: part == Constant("pi")),
        ("Give the angle in degrees.", r"120^\circ", r"\frac{2\pi}{3}"),
    ),
    Form(
        "a fraction",
        _asks(r"\bas an? (?:\w+ ){0,2}fraction\b|\bas (?:\w+ )?fractions\b|用分数|化(?:成|为)(?:最简)?分数"),
        _has_no(_is_decimal, lambda part: isinstance(part, Quantity) and part.unit == "percent"),
        ("Give the answer as a fraction.", r"\frac{1}{2}", "0.5"),
    ),
    Form(
        "a decimal",
        _asks(r"\bas an? (?:\w+ )?decimal\b|用小数|化(?:成|为)小数"),
        _has_no(lambda part: isinstance(part, Quotient)),
        ("Give the answer as a decimal.", "0.5", r"\frac{1}{2}"),
    ),
    Form(
        "simplified",
        _asks(r"\bsimplify\b|\bsimplest (?:\w+ )?form\b|\blowest terms\b|化简|最简"),
        _is_simple,
        ("Simplify it.", "x+2", r"\frac{2x+4}{2}"),
    ),
    # Only a question of plain arithmetic: what a sum or a binomial is may well be said as a power.
    Form(
        "calculated",
        _asks(
            r"(?:\b(?:evaluate|compute|calculate)|\bwhat is|计算)[:：]?(?: the value of)?\s*(?:\$|\\\()"
            r"[\d\s+*/^{}().,-](?:[\d\s+*/^{}().,-]|\\(?:cdot|times|div|frac|left|right)(?![a-z]))*(?:\$|\\\))"
        ),
        _is_calculated,
        ("Compute $1/2+1/4$.", r"\frac{3}{4}", r"\frac{6}{8}"),
    ),
)
_FACTOR = _asks(r"\bfactor(?:i[sz]e)?\b(?! of\b| is\b)(?<!common factor)|\bfactored form\b|因式分解|分解因式")
_IN_UNITS = _asks(r"\b(?:in|to|into|many) ((?:square |cubic )?[a-z]{2,12})\b")
