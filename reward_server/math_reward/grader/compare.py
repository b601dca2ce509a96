r"""Decides whether an answer is the reference answer, in stages, the cheapest first.

Both are trees of `syntax.py`. What the two sides are decides the rule: lists are compared in any order, tuples in
order, sets of reals as intervals, matrices entry by entry; ``x = v`` says v; ``a \pm b`` are two values. What remains
are single expressions: rational numbers exactly, others structurally, then at points (`numeric.py`), then by SymPy.

The comparison is not symmetric: the reference sets the form. A decimal reference of three significant digits or more
is taken as rounded, so 27/59 is 0.458; a unit that only one side has is dropped; two different units are not equal.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import fields
from fractions import Fraction

from math_reward.grader import numeric, symbolic
from math_reward.grader.exact import exact
from math_reward.grader.numeric import Unknown
from math_reward.grader.real_sets import Intervals, intervals, is_set_like
from math_reward.grader.syntax import (
    BasedNumber,
    BigOperator,
    Bracketed,
    Call,
    ClockTime,
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
    Several,
    Sum,
    Symbol,
    Text,
    rebuilt,
    symbols,
    walk,
)
from math_reward.grader.tokens import TooComplex
from math_reward.grader.verdict import Options, Stage
from math_reward.grader.vocabulary import SCALES, UNITS

MAX_ITEMS = 64
"""Items of a list whose order does not matter, where they are not plain numbers."""
ROUNDED_DIGITS = 3
"""A decimal reference with fewer significant digits is exact."""

_ORDER = (Stage.STRING, Stage.EXACT, Stage.STRUCTURE, Stage.NUMERIC, Stage.SYMPY)
_COLLECTIONS = (Several, Bracketed, Matrix)
_INEQUALITIES = ("<", "<=", ">", ">=", "!=")
_COORDINATES = frozenset("xyz")
_KNOWN_UNITS = frozenset(UNITS.values())
_NO_UNIT = re.compile(r"units?(?:\^\d)?")


class Contradiction(ValueError):
    """An answer says two different things at once: ``41 = 42``."""


class Comparison:
    """One comparison of a reference and an answer.

    ``stage`` is the latest stage that it needed; ``undecided`` is True where something in it has no value that could
    be compared, and was compared as it is written.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self.stage = Stage.EXACT
        self.undecided = False

    def _reached(self, stage: Stage) -> None:
        if _ORDER.index(stage) > _ORDER.index(self.stage):
            self.stage = stage

    def same(self, reference: Node, answer: Node) -> bool:
        """True where the two are the same mathematically.

        Raises:
            TooComplex: a number is too big to compute.
            Undefined: one of them has no value, such as 1/0.
            Contradiction: one of them says two things.
        """
        if reference == answer:
            self._reached(Stage.STRUCTURE)
            return True
        equations = (reference, answer)
        reference_label, reference = self._without_label(reference)
        answer_label, answer = self._without_label(answer)
        if isinstance(reference, Relation) != isinstance(answer, Relation) and _are_equations(*equations):
            return self._same_relation(*equations)  # y = x/2 + 2 is 2y = x + 4
        if reference_label is not None and answer_label is not None:
            if _clash(reference_label, answer_label):
                self._reached(Stage.STRUCTURE)
                return False
            answer = _with_argument_of(reference_label, answer_label, answer)
        return self._same_value(reference, answer)

    # ── what the two sides are ──

    def _same_value(self, reference: Node, answer: Node) -> bool:
        if reference == answer:
            self._reached(Stage.STRUCTURE)
            return True
        reference, answer = _multiplied(reference), _multiplied(answer)
        kinds = (type(reference), type(answer))
        if is_set_like(reference) or is_set_like(answer):
            return self._same_set(reference, answer)
        if _has_sign(reference) or _has_sign(answer):
            return self._same_items(_values(reference), _values(answer))
        if Several in kinds or Bracketed in kinds or Matrix in kinds:
            return self._same_collection(reference, answer)
        if Text in kinds:
            self._reached(Stage.STRUCTURE)
            return _words(reference) == _words(answer) is not None
        if ClockTime in kinds or Ratio in kinds:
            return self._same_ratio(reference, answer)
        if Relation in kinds:
            return self._same_relation(reference, answer)
        if Quantity in kinds:
            return self._same_quantity(reference, answer)
        if isinstance(reference, BasedNumber) and isinstance(answer, Number):
            # The base is like a unit: the question asked for it.
            return str(answer.value) == reference.digits
        return self._same_expression(reference, answer)

    def _without_label(self, node: Node) -> tuple[Node | None, Node]:
        r"""``x`` and ``3`` of ``x = 3``, ``x = 1 + 2 = 3`` and ``x \approx 3``; the value of a constant chain."""
        if not isinstance(node, Relation):
            return None, node
        if node.operators == ("in",) and isinstance(node.operands[0], Symbol):
            return node.operands[0], node.operands[1]
        if any(operator not in ("=", "~") for operator in node.operators):
            return None, node
        operands = list(node.operands)
        operators = list(node.operators)
        label = None
        while len(operands) > 1 and _is_label(operands[0]) and operators[0] in ("=", "~"):
            label = label or operands[0]
            operands.pop(0)
            operators.pop(0)
        if len(operands) == 1:
            return label, operands[0]
        if label is None and any(symbols(operand) for operand in operands):
            return None, node
        return label, self._value_of_chain(operands, operators)

    def _value_of_chain(self, operands: list[Node], operators: list[str]) -> Node:
        exact_part = operands[: operators.index("~") + 1] if "~" in operators else operands
        value = exact_part[-1]
        for step in exact_part[:-1]:
            if not self._same_value(value, step):
                raise Contradiction("it equates two different things")
        for rounded in operands[len(exact_part) :]:
            if not self._rounds_to(value, rounded):
                raise Contradiction("its approximation is of something else")
        return value

    # ── sets, lists, tuples, matrices ──

    def _same_set(self, reference: Node, answer: Node) -> bool:
        self._reached(Stage.STRUCTURE)
        left, right = intervals(reference), intervals(answer)
        if left is not None and right is not None:
            return self._same_intervals(left, right)
        if isinstance(reference, SetOperation) and isinstance(answer, SetOperation):
            if reference.operator != answer.operator:
                return False
            if reference.operator == "difference":
                return self._pairwise(reference.operands, answer.operands)
            return self._same_items(reference.operands, answer.operands)
        if isinstance(reference, Bracketed) and isinstance(answer, Bracketed):
            return self._same_brackets(reference, answer)
        if isinstance(reference, Relation) and isinstance(answer, Relation):
            return self._same_relation(reference, answer)
        if isinstance(reference, SetBuilder) and isinstance(answer, SetBuilder):
            condition = _renamed(answer.condition, reference.variable, answer.variable)
            return self.same(reference.condition, condition)
        if isinstance(reference, Several) and isinstance(answer, Several):
            return self._same_items(reference.items, answer.items)
        return False

    def _same_intervals(self, left: Intervals, right: Intervals) -> bool:
        if len(left) != len(right):
            return False
        for pair in zip(left, right, strict=True):
            for a, b in zip(*pair, strict=True):
                if a.closed != b.closed:
                    return False
                if a.value != b.value:
                    if math.isinf(a.value) or math.isinf(b.value):
                        return False
                    if abs(a.value - b.value) > 1e-9 * max(1.0, abs(a.value)):
                        return False
                    if a.node and b.node and not self._same_expression(a.node, b.node):
                        return False
        return True

    def _same_collection(self, reference: Node, answer: Node) -> bool:
        self._reached(Stage.STRUCTURE)
        if isinstance(reference, Matrix) and isinstance(answer, Matrix):
            if len(reference.rows) != len(answer.rows):
                return False
            return all(self._pairwise(a, b) for a, b in zip(reference.rows, answer.rows, strict=True))
        if Matrix in (type(reference), type(answer)):
            left, right = _vector(reference), _vector(answer)
            return left is not None and right is not None and self._pairwise(left, right)
        if isinstance(reference, Bracketed) and isinstance(answer, Bracketed):
            return self._same_brackets(reference, answer)
        if Bracketed in (type(reference), type(answer)):
            tuple_, other = (reference, answer) if isinstance(reference, Bracketed) else (answer, reference)
            assert isinstance(tuple_, Bracketed)
            if isinstance(other, Several):
                if len(other.items) == 1:
                    return self._in_order(reference, answer, other, other.items[0])
                if other.kind == "list":
                    pair = (tuple_.items, other.items)
                    return self._pairwise(*(pair if tuple_ is reference else pair[::-1]))
                return False
            return len(tuple_.items) == 1 and self._in_order(reference, answer, tuple_, tuple_.items[0])
        if isinstance(reference, Several) and isinstance(answer, Several):
            return self._same_lists(reference, answer)
        several = reference if isinstance(reference, Several) else answer
        assert isinstance(several, Several)
        values = _values(several)
        return len(values) == 1 and self._in_order(reference, answer, several, values[0])

    def _in_order(self, reference: Node, answer: Node, wrapped: Node, content: Node) -> bool:
        """Compare with ``content`` in the place of ``wrapped``."""
        return self.same(content if wrapped is reference else reference, content if wrapped is answer else answer)

    def _same_brackets(self, reference: Bracketed, answer: Bracketed) -> bool:
        # [1, 2, 3] is a tuple as (1, 2, 3) is; two items may be an interval, whose brackets matter.
        if len(reference.items) == 2 and (reference.left, reference.right) != (answer.left, answer.right):
            return False
        return self._pairwise(reference.items, answer.items)

    def _same_lists(self, reference: Several, answer: Several) -> bool:
        left, right = _values(reference), _values(answer)
        if "set" in (reference.kind, answer.kind) or all(isinstance(item, Bracketed) for item in left):
            # Solutions are a set: one that is given twice is one.
            left, right = self._distinct(left), self._distinct(right)
        if len(left) != len(right):
            return False
        labels = [self._without_label(item)[0] for item in right]
        if _all_different(labels):
            known = [self._without_label(item)[0] for item in left]
            if not _all_different(known):
                # "p = 3, q = 4" for "3, 4": in the order given or that of the names, and in no other.
                named = sorted(zip(map(str, labels), right, strict=True), key=lambda pair: pair[0])
                return self._pairwise(left, right) or self._pairwise(left, [item for _, item in named])
        return self._same_items(left, right)

    def _distinct(self, items: list[Node]) -> list[Node]:
        kept: list[Node] = []
        for item in items:
            if item not in kept:
                kept.append(item)
        return kept

    def _pairwise(self, left: list[Node] | tuple[Node, ...], right: list[Node] | tuple[Node, ...]) -> bool:
        return len(left) == len(right) and all(self.same(a, b) for a, b in zip(left, right, strict=True))

    def _same_items(self, left: list[Node] | tuple[Node, ...], right: list[Node] | tuple[Node, ...]) -> bool:
        """The same items in any order."""
        if len(left) != len(right):
            return False
        exact_left, exact_right = [exact(item) for item in left], [exact(item) for item in right]
        if None not in exact_left and None not in exact_right:
            if Counter(exact_left) == Counter(exact_right):
                return True
            if not (self._options.rel_tol or self._options.allow_rounded or any(map(_rounding, left))):
                return False
        if len(left) > MAX_ITEMS:
            return self._pairwise(left, right)
        rest = list(right)
        for item in left:
            match = next((index for index, other in enumerate(rest) if self.same(item, other)), None)
            if match is None:
                return False
            del rest[match]
        return True

    # ── ratios, relations, quantities ──

    def _same_ratio(self, reference: Node, answer: Node) -> bool:
        if isinstance(reference, ClockTime) and isinstance(answer, ClockTime):
            return reference.seconds == answer.seconds
        left, right = _terms(reference), _terms(answer)
        if len(left) != len(right) or len(left) < 2:
            if len(left) > 2 or len(right) > 2 or len(left) == len(right):
                return False
            # 3:1 is 3.
            return self._same_value(_as_quotient(left), _as_quotient(right))
        # 2:4 is 1:2.
        return all(
            self._same_value(Product((left[0], b)), Product((a, right[0])))
            for a, b in zip(left[1:], right[1:], strict=True)
        )

    def _same_relation(self, reference: Node, answer: Node) -> bool:
        self._reached(Stage.STRUCTURE)
        if not isinstance(reference, Relation) or not isinstance(answer, Relation):
            return False
        if len(reference.operators) != 1 or len(answer.operators) != 1:
            if reference.operators == answer.operators:
                return self._pairwise(reference.operands, answer.operands)
            flipped = tuple(_FLIPPED.get(operator, operator) for operator in reversed(answer.operators))
            return reference.operators == flipped and self._pairwise(reference.operands, answer.operands[::-1])
        operator, other = reference.operators[0], answer.operators[0]
        operands, others = reference.operands, answer.operands
        if operator != other:
            if _FLIPPED.get(operator) != other:
                return False
            others = (others[1], others[0])
        if operator not in ("=", *_INEQUALITIES):
            return self._pairwise(operands, others)
        self._reached(Stage.NUMERIC)
        try:
            left = Sum((operands[0], Negative(operands[1])))
            right = Sum((others[0], Negative(others[1])))
            verdict = numeric.proportional(left, right, positive=operator not in ("=", "!="))
        except Unknown:
            return self._pairwise(operands, others)
        return bool(verdict) or (
            operator == "=" and (self._solves(answer, reference) or self._solves(reference, answer))
        )

    def _solves(self, solution: Relation, equation: Relation) -> bool:
        """Whether ``y = 6/x`` is what ``xy = 6``, of first degree in y, is solved for y."""
        variable, value = solution.operands
        if not isinstance(variable, Symbol) or variable.name in symbols(value):
            return False
        left = Sum((equation.operands[0], Negative(equation.operands[1])))
        zero = Number(Fraction(0))

        def at(place: Node) -> Node:
            return _substituted(left, variable.name, place)

        step = Sum((at(Number(Fraction(1))), Negative(at(zero))))
        double_step = Sum((at(Number(Fraction(2))), Negative(at(zero))))
        is_linear = numeric.same_function(Product((Number(Fraction(2)), step)), double_step)
        if not is_linear or numeric.same_function(step, zero):
            return False
        return bool(numeric.same_function(at(value), zero))

    def _same_quantity(self, reference: Node, answer: Node) -> bool:
        value, unit = _split(reference)
        other, other_unit = _split(answer)
        if unit and other_unit:
            if not _same_unit(unit, other_unit):
                scale = _scale(unit, other_unit)
                if scale is not None:
                    return self._same_value(Product((value, Number(scale))), other)
                if {unit, other_unit} == {"degree", "radian"}:
                    return self._same_expression(_radians(reference), _radians(answer))
                self._reached(Stage.STRUCTURE)
                return False
            return self._same_value(value, other)
        if self._same_value(value, other):
            return True
        if "percent" in (unit, other_unit):
            return self._same_value(_without_percent(reference), _without_percent(answer))
        if "degree" in (unit, other_unit):
            return self._same_value(_radians(reference), _radians(answer))
        return False

    # ── single expressions ──

    def _same_expression(self, reference: Node, answer: Node) -> bool:
        if not isinstance(reference, _EXPRESSIONS) or not isinstance(answer, _EXPRESSIONS):
            return False
        left, right = exact(reference), exact(answer)
        if left is not None and right is not None:
            return left == right or self._close(reference, answer, left, right)
        names, others = symbols(reference), symbols(answer)
        self._reached(Stage.NUMERIC)
        try:
            if not names and not others:
                if numeric.same_constant(reference, answer):
                    return True
                return self._close(reference, answer, left, right)
            verdict = numeric.same_function(reference, answer)
        except Unknown:
            self._reached(Stage.STRUCTURE)
            self.undecided = True
            return self._same_structure(reference, answer)
        if verdict is None:
            self._reached(Stage.SYMPY)
            self.undecided = True
            return symbolic.equal(reference, answer)
        return verdict

    def _close(self, reference: Node, answer: Node, left: Fraction | None, right: Fraction | None) -> bool:
        """Equality up to rounding or ``rel_tol``, as far as the options and the form of the two allow."""
        options = self._options
        step = _rounding(reference)
        if step and _rounding(answer) is None and not _is_integer(right) and self._within(reference, answer, step / 2):
            return True
        step = _rounding(answer) if options.allow_rounded else None
        if step and self._within(reference, answer, step / 2):
            return True
        if options.rel_tol > 0:
            value = left if left is not None else numeric.constant(reference)
            if value is not None:
                return self._within(reference, answer, abs(Fraction(value)) * Fraction(options.rel_tol))
        return False

    def _within(self, left: Node, right: Node, distance: Fraction) -> bool:
        a, b = exact(left), exact(right)
        if a is not None and b is not None:
            return abs(a - b) <= distance
        x, y = numeric.constant(left), numeric.constant(right)
        return x is not None and y is not None and abs(x - y) <= distance * Fraction(1_000_001, 1_000_000)

    def _rounds_to(self, value: Node, rounded: Node) -> bool:
        if self._same_value(value, rounded):
            return True
        (value, _), (rounded, _) = _split(value), _split(rounded)
        step = _rounding(rounded, least=1)
        known = exact(value)
        if step is None:
            if _is_integer(known) or not _is_integer(exact(rounded)):
                return False
            step = Fraction(1)
        return self._within(value, rounded, step if known is None or not _is_integer(known) else step / 2)

    def _same_structure(self, reference: Node, answer: Node) -> bool:
        """For what has no value at a point: the same operator with the same things under it."""
        if type(reference) is not type(answer):
            return False
        if isinstance(reference, (Sum, Product)):
            a, b = _parts(reference), _parts(answer)
            return self._same_items(a, b)
        if isinstance(reference, BigOperator) and isinstance(answer, BigOperator):
            same_bounds = reference.lower == answer.lower and reference.upper == answer.upper
            return reference.name == answer.name and same_bounds and self._same_value(reference.body, answer.body)
        if isinstance(reference, Call) and isinstance(answer, Call):
            return reference.function == answer.function and self._pairwise(reference.arguments, answer.arguments)
        if isinstance(reference, (Negative, Quotient, Power)):
            pairs = [(getattr(reference, f.name), getattr(answer, f.name)) for f in fields(reference)]
            return all(self._same_value(a, b) for a, b in pairs)
        return reference == answer


_FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}
_EXPRESSIONS = (
    Number,
    Symbol,
    Constant,
    Sum,
    Product,
    Quotient,
    Power,
    Negative,
    Call,
    BigOperator,
    Quantity,
    BasedNumber,
)


def mentions(comparison: Comparison, reference: Node, answer: Node) -> bool:
    """True where the answer has several values and the reference is one of them: a guess."""
    if isinstance(answer, Relation) and answer.operators == ("in",):
        answer = answer.operands[1]
    if isinstance(reference, _COLLECTIONS) or not isinstance(answer, (Several, PlusMinus)):
        return False
    return any(comparison.same(reference, item) for item in _values(answer))


def _is_integer(value: Fraction | None) -> bool:
    return value is not None and value.denominator == 1


def _has_sign(node: Node) -> bool:
    if isinstance(node, (Number, Symbol, Relation, Several, Matrix)):
        return False
    return any(isinstance(part, PlusMinus) for part in walk(node))


def _signed(node: Node, sign: int) -> Node:
    r"""``node`` with every ``\pm`` taken as one sign."""

    def change(part: Node) -> Node | None:
        if not isinstance(part, PlusMinus):
            return None
        right = _signed(part.right, sign)
        right = right if sign > 0 else Negative(right)
        return right if part.left is None else Sum((_signed(part.left, sign), right))

    return rebuilt(node, change)


def _multiplied(node: Node) -> Node:
    """A number times a matrix as the matrix of the products."""
    if isinstance(node, Negative) and isinstance(node.operand, Matrix):
        return _scaled(node.operand, lambda entry: Negative(entry))
    if isinstance(node, Quotient) and isinstance(node.numerator, Matrix):
        return _scaled(node.numerator, lambda entry: Quotient(entry, node.denominator))
    if isinstance(node, Product):
        matrices = [factor for factor in node.factors if isinstance(factor, Matrix)]
        others = tuple(factor for factor in node.factors if not isinstance(factor, Matrix))
        if len(matrices) == 1:
            return _scaled(matrices[0], lambda entry: Product((*others, entry)))
    return node


def _scaled(matrix: Matrix, rule: Callable[[Node], Node]) -> Matrix:
    return Matrix(tuple(tuple(rule(entry) for entry in row) for row in matrix.rows))


def _values(node: Node) -> list[Node]:
    r"""The values of a list, each ``a \pm b`` as two; the signs of a tuple's entries are independent."""
    if isinstance(node, Bracketed) and _has_sign(node):
        choices = [_values(item) if _has_sign(item) else [item] for item in node.items]
        if math.prod(map(len, choices)) > MAX_ITEMS:
            raise TooComplex(f"its signs give more than {MAX_ITEMS} tuples")
        return [Bracketed(node.left, node.right, items) for items in itertools.product(*choices)]
    if not isinstance(node, (PlusMinus, Several)) and _has_sign(node):
        return [_signed(node, 1), _signed(node, -1)]
    if isinstance(node, PlusMinus):
        if node.left is None:
            return [node.right, Negative(node.right)]
        return [Sum((node.left, node.right)), Sum((node.left, Negative(node.right)))]
    if not isinstance(node, Several):
        return [node]
    values: list[Node] = []
    for item in node.items:
        if isinstance(item, Relation) and isinstance(item.operands[-1], PlusMinus) and item.operators == ("=",):
            values += _values(item.operands[-1])
        elif isinstance(item, Several) or _has_sign(item):
            values += _values(item)
        else:
            values.append(item)
    return values


def _vector(node: Node) -> tuple[Node, ...] | None:
    """The entries of a row, a column or a tuple."""
    if isinstance(node, Matrix):
        if len(node.rows) == 1:
            return node.rows[0]
        return tuple(row[0] for row in node.rows) if len(node.rows[0]) == 1 else None
    if isinstance(node, Bracketed) and (node.left, node.right) in (("(", ")"), ("[", "]")):
        return node.items
    return None


def _is_label(node: Node) -> bool:
    """What may stand left of "=" to say what the value is of: ``x``, ``f(x)``, ``(x, y)``, ``f'(x)``."""
    if isinstance(node, Call):
        if node.function == "abs":
            return isinstance(node.arguments[0], Product) and _is_label(node.arguments[0])
        return node.function.startswith("apply ") or (node.function == "prime" and _is_label(node.arguments[0]))
    if isinstance(node, Bracketed):
        return (node.left, node.right) == ("(", ")") and all(_is_label(item) for item in node.items)
    if isinstance(node, Ratio):
        return all(_is_label(term) for term in node.terms)
    if isinstance(node, Product):
        # AB and \angle ABC are a length and an angle, xy is a product.
        names = [factor.name if isinstance(factor, Symbol) else "" for factor in node.factors]
        return all(name.isupper() or name == "\\angle" for name in names)
    if isinstance(node, Several):
        return node.kind == "list" and all(_is_label(item) for item in node.items)
    return isinstance(node, Symbol)


def _clash(reference: Node, answer: Node) -> bool:
    """``x = 3`` is another line than ``y = 3``."""
    return (
        isinstance(reference, Symbol)
        and isinstance(answer, Symbol)
        and reference.name != answer.name
        and reference.name in _COORDINATES
        and answer.name in _COORDINATES
    )


def _are_equations(*nodes: Node) -> bool:
    return all(isinstance(node, Relation) and node.operators == ("=",) for node in nodes)


def _with_argument_of(reference: Node, answer: Node, value: Node) -> Node:
    """``value`` of f(x) = value with the variable that the reference has: f(z)."""
    if isinstance(reference, Call) and isinstance(answer, Call) and len(reference.arguments) == len(answer.arguments):
        for new, old in zip(reference.arguments, answer.arguments, strict=True):
            value = _renamed(value, new, old)
    return value


def _renamed(node: Node, new: Node, old: Node) -> Node:
    if not isinstance(old, Symbol) or not isinstance(new, Symbol) or new == old:
        return node
    return _substituted(node, old.name, new)


def _substituted(node: Node, name: str, new: Node) -> Node:
    """``node`` with ``new`` in the place of the variable ``name``."""
    return rebuilt(node, lambda part: new if isinstance(part, Symbol) and part.name == name else None)


def _all_different(labels: list[Node | None]) -> bool:
    return len(labels) > 1 and None not in labels and len({str(label) for label in labels}) == len(labels)


def _words(node: Node) -> str | None:
    if isinstance(node, Text):
        return node.text
    return node.name if isinstance(node, Symbol) else None


def _terms(node: Node) -> tuple[Node, ...]:
    if isinstance(node, ClockTime):
        return () if node.as_ratio is None else node.as_ratio.terms
    return node.terms if isinstance(node, Ratio) else (node,)


def _as_quotient(terms: tuple[Node, ...]) -> Node:
    return Quotient(terms[0], terms[1]) if len(terms) == 2 else terms[0] if terms else Text("")


def _split(node: Node) -> tuple[Node, str]:
    if isinstance(node, Quantity):
        return node.value, "" if _NO_UNIT.fullmatch(node.unit) else node.unit
    return node, ""


def _same_unit(unit: str, other: str) -> bool:
    if unit == other:
        return True
    if any(name.partition("^")[0].partition("/")[0] in _KNOWN_UNITS for name in (unit, other)):
        return False
    # A counted thing may be named more or less closely: "lollipops", "lollipop candies".
    stems, others = ({word[:4] for word in name.split() if len(word) > 2} for name in (unit, other))
    return bool(stems & others)


def _scale(unit: str, other: str) -> Fraction | None:
    """How many of ``other`` one ``unit`` is, with the same power of both; None where they measure different things."""
    (name, _, power), (other_name, _, other_power) = unit.partition("^"), other.partition("^")
    kind, size = SCALES.get(name, (name, 0))
    other_kind, other_size = SCALES.get(other_name, (other_name, 0))
    if not size or not other_size or kind != other_kind or power != other_power:
        return None
    return Fraction(size, other_size) ** int(power or 1)


def _radians(node: Node) -> Node:
    if isinstance(node, Quantity) and node.unit == "degree":
        return Quotient(Product((node.value, Constant("pi"))), Number(Fraction(180)))
    return node.value if isinstance(node, Quantity) else node


def _without_percent(node: Node) -> Node:
    if not isinstance(node, Quantity) or node.unit != "percent":
        return node
    if isinstance(node.value, Number):
        number = node.value
        places = None if number.places is None else number.places + 2
        return Number(number.value / 100, places, number.significant)
    return Quotient(node.value, Number(Fraction(100)))


def _rounding(node: Node, least: int = ROUNDED_DIGITS) -> Fraction | None:
    """What one unit in the last place of a decimal is worth; None for what is no decimal of ``least`` digits."""
    if isinstance(node, Number):
        if node.places is None or node.significant < least:
            return None
        return Fraction(1, 10**node.places)
    if isinstance(node, Negative):
        return _rounding(node.operand, least)
    if isinstance(node, Quantity):
        return _rounding(node.value, least)
    if isinstance(node, Product) and len(node.factors) == 2:
        step, factor = _rounding(node.factors[0], least), node.factors[1]
        if step and isinstance(factor, Power) and exact(factor.base) == 10:
            scale = exact(factor)
            return None if scale is None else step * scale
    return None


def _parts(node: Node) -> tuple[Node, ...]:
    return node.terms if isinstance(node, Sum) else node.factors if isinstance(node, Product) else (node,)
