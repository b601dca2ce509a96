r"""Shows that two answers are equal without the grader's rules: by spelling, or by values that are calculated here.

Only the grader's parser is used, for the trees; what the trees are worth is calculated again, to fifty digits and at
points of our own, and lists, intervals and families are compared as the values that they have. What is not shown to
be equal may still be: then a person decides, and writes it down in ``judged.jsonl``.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import mpmath

from math_reward.grader.notation.declarations import declared
from math_reward.grader.notation.syntax import (
    BasedNumber,
    BigOperator,
    Bracketed,
    Call,
    ClockTime,
    Collection,
    Congruence,
    Constant,
    Matrix,
    Negative,
    Node,
    Number,
    PlusMinus,
    Power,
    Product,
    Quantity,
    Quotient,
    Ratio,
    Relation,
    SetBuilder,
    SetOperation,
    Sum,
    Symbol,
    Text,
    bound_by,
    substituted,
    symbols,
    walk,
)
from math_reward.grader.reading import Answer, Reference
from math_reward.grader.rules.trees import signed
from math_reward.grader.words.units import measure

DIGITS = 50
TOLERANCE = mpmath.mpf(10) ** -35
_CLOSE = 10.0**-9
_DRESS = re.compile(
    r"\\(?:left|right|displaystyle|text|textbf|mathrm|mathbf|operatorname|quad|,|;|!|:| )(?![a-zA-Z])|[\s{}$.~]"
)
_SPELLED_ALIKE = {
    "dfrac": "frac", "tfrac": "frac", "leq": "le", "geq": "ge", "neq": "ne", "\\cdot": "*", "\\times": "*",
    r"\text{ and }": ",", r"\text{ or }": "or",
}  # fmt: skip
_LETTER = re.compile(r"\\[a-zA-Z]+|(?<![a-zA-Z])[a-zA-Z](?![a-zA-Z])")
_COUNTING = frozenset("knmljpqN")

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{
        name: getattr(mpmath, name)
        for name in (
            "sin",
            "cos",
            "tan",
            "cot",
            "sec",
            "csc",
            "sinh",
            "cosh",
            "tanh",
            "asin",
            "acos",
            "atan",
            "exp",
            "sqrt",
        )
    },
    "asinh": mpmath.asinh,
    "acosh": mpmath.acosh,
    "atanh": mpmath.atanh,
    "log": lambda x, base=mpmath.e: mpmath.log(x) / mpmath.log(base),
    "root": lambda x, index: _power(x, 1 / index),
    "abs": abs,
    "floor": lambda x: mpmath.floor(_real(x)),
    "ceil": lambda x: mpmath.ceil(_real(x)),
    "max": lambda *xs: max(map(_real, xs)),
    "min": lambda *xs: min(map(_real, xs)),
    "factorial": lambda x: mpmath.gamma(x + 1),
    "binom": mpmath.binomial,
    "choose": mpmath.binomial,
    "re": mpmath.re,
    "im": mpmath.im,
}


class NoValue(ValueError):
    """What has no value here."""


def shown_equal(reference: str, answer: str) -> str | None:
    """How two answers are shown to be equal; None if they are not."""
    if _spelling(reference) == _spelling(answer):
        return "spelling"
    mine, theirs = Reference.read(reference), Answer(answer)
    try:
        left, right = mine.reading.tree, theirs.reading.tree
    except ValueError:
        return None
    if left == right:
        return "tree"
    if _only_renamed(mine.normal, theirs.normal, left):
        return "bound letter renamed"
    with mpmath.workdps(DIGITS):
        try:
            if _same(left, right):
                return "value"
            ranges = mine.reading.domains | declared(mine.normal)
            domains = theirs.reading.domains | declared(theirs.normal)
            if ranges and _same_families(left, right, set(ranges), set(domains)):
                return "family"
        except (NoValue, ArithmeticError, ValueError, TypeError, mpmath.libmp.ComplexResult):
            return None
    return None


def _only_renamed(reference: str, answer: str, tree: Node) -> bool:
    """Whether the texts differ only in letters that the reference binds, renamed one to one."""
    if _LETTER.sub("?", reference) != _LETTER.sub("?", answer):
        return False
    pairs = set(zip(_LETTER.findall(reference), _LETTER.findall(answer), strict=True))
    if len({old for old, _ in pairs}) < len(pairs) or len({new for _, new in pairs}) < len(pairs):
        return False
    bound = {name for part in walk(tree) if isinstance(part, BigOperator) for name in bound_by(part)}
    bound |= {
        part.variable.name for part in walk(tree) if isinstance(part, SetBuilder) and isinstance(part.variable, Symbol)
    }
    bound |= set(re.findall(r"(?<![a-zA-Z\\])[a-zA-Z]'{0,2}(?:\^\{?-1\}?)?\(([a-z])\) ?=", reference))
    bound |= set(re.findall(r"^[a-zA-Z]_\{?([a-z])\}? ?=", reference)) | set(
        re.findall(r"\{ ?([a-z]) ?(?::|\||\\mid|\\in)", reference)
    )
    bound |= set(declared(reference)) if set(declared(answer)) else set()
    changed = {(old, new) for old, new in pairs if old != new}
    counted = r"\pi" in reference and all(old in "knm" and new in _COUNTING for old, new in changed)
    constants = all(re.fullmatch("[CcK]", old) and re.fullmatch("[A-DKa-dkm]", new) for old, new in changed)
    return counted or {old for old, _ in changed} <= bound or (constants and any(old == "C" for old, _ in changed))


def _spelling(text: str) -> str:
    for written, alike in _SPELLED_ALIKE.items():
        text = text.replace(written, alike)
    text = _DRESS.sub("", text)
    return text.lower() if len(text) > 1 and not re.search(r"[\\^_]", text) else text


# ── values ──


def _real(value: Any) -> Any:
    if abs(mpmath.im(value)) > TOLERANCE:
        raise NoValue
    return mpmath.re(value)


def _power(base: Any, exponent: Any) -> Any:
    if base == 0 and mpmath.re(exponent) <= 0:
        raise NoValue
    return mpmath.power(base, exponent)


def value(node: Node, point: dict[str, Any]) -> Any:
    """The value of an expression at a point."""
    match node:
        case Number():
            return mpmath.mpf(node.value.numerator) / node.value.denominator
        case BasedNumber():
            return mpmath.mpf(int(node.digits, node.base))
        case Symbol() if node.name in point:
            return point[node.name]
        case Constant(name="pi"):
            return +mpmath.pi
        case Constant(name="e"):
            return +mpmath.e
        case Constant(name="i"):
            return mpmath.mpc(0, 1)
        case Negative():
            return -value(node.operand, point)
        case Sum():
            return mpmath.fsum(value(term, point) for term in node.terms)
        case Product():
            return mpmath.fprod(value(factor, point) for factor in node.factors)
        case Quotient():
            below = value(node.denominator, point)
            if abs(below) < TOLERANCE:
                raise NoValue
            return value(node.numerator, point) / below
        case Power():
            return _power(value(node.base, point), value(node.exponent, point))
        case Quantity(unit="percent"):
            return value(node.value, point) / 100
        case Quantity(unit="degree"):
            return value(node.value, point) * mpmath.pi / 180
        case Call() if node.function in _FUNCTIONS:
            return _FUNCTIONS[node.function](*[value(argument, point) for argument in node.arguments])
    raise NoValue


def _agree(a: Any, b: Any) -> bool:
    return bool(abs(a - b) <= TOLERANCE * max(1e-30, abs(a), abs(b)))


def _points(names: set[str]) -> Iterator[dict[str, Any]]:
    source = random.Random("".join(sorted(names)))
    whole = [dict.fromkeys(names, None) for _ in range(4)]
    for index in range(12):
        low, high = ((0, 1), (1, 5), (-4, 4))[index % 3]
        yield {name: mpmath.mpf(source.uniform(low, high)) for name in sorted(names)}
    for place in whole:
        yield {name: mpmath.mpf(source.randint(2, 11)) for name in sorted(place)}


def _same_values(left: Node, right: Node) -> bool:
    names = symbols(left) | symbols(right)
    compared = 0
    for point in _points(names):
        try:
            a = value(left, point)
        except NoValue:
            if not names:
                raise
            continue
        if names and abs(mpmath.im(a)) > TOLERANCE:
            continue
        if not _agree(a, value(right, point)):
            return False
        compared += 1
    return compared >= (3 if names else 1)


# ── answers ──


def _same(left: Node, right: Node) -> bool:
    left, right = _unlabelled(left), _unlabelled(right)
    if left == right:
        return True
    if isinstance(left, Text) or isinstance(right, Text):
        return False
    if _is_set(left) or _is_set(right):
        return _same_members(left, right)
    lists = [_items(side) for side in (left, right)]
    if lists[0] is not None or lists[1] is not None:
        mine, theirs = ([side] if items is None else items for side, items in zip((left, right), lists, strict=True))
        return _paired(mine, theirs)
    rows = [_entries(side) for side in (left, right)]
    if rows[0] is not None and rows[1] is not None:
        return len(rows[0]) == len(rows[1]) and all(map(_same, *rows))
    if isinstance(left, Relation) and isinstance(right, Relation):
        return _same_relations(left, right)
    if isinstance(left, (Ratio, ClockTime)) or isinstance(right, (Ratio, ClockTime)):
        terms = [side.terms if isinstance(side, Ratio) else _terms(side) for side in (left, right)]
        values = [[value(term, {}) for term in side] for side in terms]
        return len(values[0]) == len(values[1]) and all(
            _agree(a * values[1][-1], b * values[0][-1]) for a, b in zip(*values, strict=True)
        )
    return _same_scalars(left, right)


def _terms(node: Node) -> tuple[Node, ...]:
    if isinstance(node, ClockTime):
        if node.as_ratio is None:
            raise NoValue
        return node.as_ratio.terms
    return (node.numerator, node.denominator) if isinstance(node, Quotient) else (node, Number(Fraction(1)))


def _same_scalars(left: Node, right: Node) -> bool:
    """Values with the conventions of docs/grader.md: units that one side lacks, percent, degrees, rounded decimals."""
    (a, unit), (b, other) = (
        (side.value, side.unit) if isinstance(side, Quantity) else (side, "") for side in (left, right)
    )
    if unit and other and unit != other and not _same_things(unit, other):
        return False
    if _same_values(a, b):
        return True
    if "percent" in (unit, other) or "degree" in (unit, other):
        return _same_values(left, right)
    if symbols(a) or symbols(b):
        return False
    x, y = value(a, {}), value(b, {})
    for rounded, exact in ((a, y), (b, x)):
        number = rounded.operand if isinstance(rounded, Negative) else rounded
        if isinstance(number, Number) and number.places is not None:
            step = mpmath.mpf(10) ** -number.places
            if rounded is a and number.significant >= 3 and abs(exact - x) <= step / 2:
                return True
            if rounded is b and number.significant >= 10 and abs(exact - y) <= step:
                return True
    return False


def _same_things(unit: str, other: str) -> bool:
    """Whether two names of counted things share their words: candies, and lollipop candies."""
    mine, theirs = (set(re.findall(r"[^\W\d_]+", name)) for name in (unit, other))
    return measure(unit) is None and measure(other) is None and (mine <= theirs or theirs <= mine)


def _unlabelled(node: Node) -> Node:
    while isinstance(node, Relation) and set(node.operators) == {"="} and len(symbols(node.operands[-1])) == 0:
        node = node.operands[-1]
    if isinstance(node, Relation) and node.operators == ("=",) and isinstance(node.operands[0], (Symbol, Call)):
        name = node.operands[0]
        if isinstance(name, Call) or name.name not in symbols(node.operands[1]):
            return node.operands[1] if isinstance(name, Call) else node
    return node


def _items(node: Node) -> list[Node] | None:
    if isinstance(node, PlusMinus) or any(isinstance(part, PlusMinus) for part in walk(node)):
        return list(_signs(node))
    if isinstance(node, Collection):
        return [item for part in node.items for item in (_items(_unlabelled(part)) or [part])]
    return None


def _signs(node: Node) -> Iterator[Node]:
    if isinstance(node, Collection):
        for item in node.items:
            yield from _signs(item)
    elif not any(isinstance(part, PlusMinus) for part in walk(node)):
        yield node
    else:
        yield from (signed(node, 1), signed(node, -1))


def _entries(node: Node) -> tuple[Node, ...] | None:
    if isinstance(node, Bracketed):
        return node.items
    if isinstance(node, Matrix):
        return tuple(itertools.chain(*node.rows))
    return None


def _paired(mine: list[Node], theirs: list[Node]) -> bool:
    rest = list(theirs)
    for item in mine:
        partner = next((other for other in rest if _holds(item, other)), None)
        if partner is None:
            return False
        rest.remove(partner)
    return not rest


def _holds(left: Node, right: Node) -> bool:
    try:
        return _same(left, right)
    except (NoValue, ArithmeticError, ValueError, TypeError):
        return False


def _same_relations(left: Relation, right: Relation) -> bool:
    """Whether one equation is a constant multiple of the other, or solves it for a letter."""
    turned = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
    if len(left.operators) != 1 or len(right.operators) != 1:
        return (
            len(left.operands) == len(right.operands)
            and left.operators == right.operators
            and all(map(_same_values, left.operands, right.operands))
        )
    if left.operators != right.operators and left.operators != (turned.get(right.operators[0]),):
        return False
    names = symbols(left) | symbols(right)
    if symbols(left) != symbols(right):
        return False
    sides = [Sum((side.operands[0], Negative(side.operands[1]))) for side in (left, right)]
    for name in sorted(names):
        # Solve the left for a letter numerically at points of the others, and put the root into the right.
        checked = 0
        for point in itertools.islice(_points(names), 6):
            rest = {key: number for key, number in point.items() if key != name}

            def left_at(x: Any, rest: dict[str, Any] = rest, name: str = name) -> Any:
                return value(sides[0], {**rest, name: x})

            try:
                root = mpmath.findroot(left_at, point[name], tol=1e-60)
                at = {**rest, name: root}
                scale = abs(value(sides[1], {**at, name: root + 1})) + 1
                if abs(value(sides[1], at)) > mpmath.mpf(10) ** -20 * scale:
                    return False
                checked += 1
            except (ValueError, ZeroDivisionError, NoValue):
                continue
        if checked < 2 and len(names) < 2:
            return False
    return True


# ── sets of reals, by their members ──


def _is_set(node: Node) -> bool:
    if isinstance(node, (SetOperation, SetBuilder)):
        return True
    if isinstance(node, Relation):
        return any(sign in ("<", "<=", ">", ">=", "!=", "in") for sign in node.operators) and len(symbols(node)) == 1
    return isinstance(node, Constant) and node.name in ("reals", "emptyset")


def _contains(node: Node, x: Any, name: str | None) -> bool:
    match node:
        case Constant(name="reals"):
            return True
        case Constant(name="emptyset"):
            return False
        case Bracketed() if len(node.items) == 2:
            low, high = (_end(item) for item in node.items)
            return (low < x or (node.left == "[" and low == x)) and (x < high or (node.right == "]" and x == high))
        case Collection(kind="set"):
            return any(_agree(value(item, {}), x) for item in node.items)
        case Collection():
            return any(_contains(item, x, name) for item in node.items)
        case SetOperation(operator="union"):
            return any(_contains(part, x, name) for part in node.operands)
        case SetOperation(operator="intersection"):
            return all(_contains(part, x, name) for part in node.operands)
        case SetOperation(operator="difference"):
            return _contains(node.operands[0], x, name) and not any(_contains(p, x, name) for p in node.operands[1:])
        case SetBuilder():
            return _contains(node.condition, x, name)
        case Relation(operators=("in",)):
            return _contains(node.operands[1], x, name)
        case Relation():
            point = dict.fromkeys(symbols(node), x)
            sides = [_end(operand, point) for operand in node.operands]
            return all(
                {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "!=": a != b, "=": a == b}[sign]
                for sign, (a, b) in zip(node.operators, itertools.pairwise(sides), strict=True)
            )
    raise NoValue


def _end(node: Node, point: dict[str, Any] | None = None) -> Any:
    if node == Constant("infinity"):
        return mpmath.inf
    if node == Negative(Constant("infinity")):
        return -mpmath.inf
    return mpmath.mpf(mpmath.nstr(_real(value(node, point or {})), 40))


def _same_members(left: Node, right: Node) -> bool:
    names = [symbols(side) for side in (left, right)]
    if names[0] and names[1] and names[0] != names[1]:
        return False
    ends: set[Any] = set()
    for part in itertools.chain(walk(left), walk(right)):
        try:
            end = _end(part)
        except (NoValue, ArithmeticError, ValueError, TypeError):
            continue
        if mpmath.isfinite(end):
            ends |= {end, -end}
    numbers = sorted(ends) or [mpmath.mpf(0)]
    tried = [*numbers, numbers[0] - 1, numbers[-1] + 1, *((a + b) / 2 for a, b in itertools.pairwise(numbers))]
    return all(_contains(left, x, None) == _contains(right, x, None) for x in tried)


# ── families ──


def _same_families(left: Node, right: Node, mine: set[str], theirs: set[str]) -> bool:
    """Whether each has the other's values, for parameters from -3 to 3 against -60 to 60."""
    (left, right), names = (_unlabelled(left), _unlabelled(right)), []
    for side, letters in ((left, mine), (right, theirs or mine)):
        found = symbols(side) & letters if not isinstance(side, Congruence) else {"k"}
        if len(found) != 1:
            return False
        names.append(found.pop())

    def members(node: Node, name: str, reach: int) -> list[Any]:
        if isinstance(node, Congruence):
            node = Sum((node.residue, Product((node.modulus, Symbol(name)))))
        parts = [_unlabelled(item) for item in (_items(node) or [node])]
        return [
            value(substituted(part, {name: Number(Fraction(index))}), {})
            for part in parts
            for index in range(-reach, reach + 1)
        ]

    for one, other, name, letter in ((left, right, *names), (right, left, *reversed(names))):
        wide = sorted(float(_real(x)) for x in members(other, letter, 60))
        if not all(any(abs(float(_real(x)) - y) < _CLOSE for y in wide) for x in members(one, name, 3)):
            return False
    return True
