"""Compares values with units, and numbers in a base."""

from __future__ import annotations

from fractions import Fraction

from math_reward.grader.notation.exact import exact
from math_reward.grader.notation.syntax import (
    BasedNumber,
    Constant,
    Node,
    Number,
    Power,
    Product,
    Quantity,
    Quotient,
    Symbol,
    symbols,
)
from math_reward.grader.rules.comparison import Comparison
from math_reward.grader.rules.expressions import same_expression
from math_reward.grader.rules.trees import split
from math_reward.grader.verdict import Stage
from math_reward.grader.words.units import is_countable, measure, one_unit, same_thing

_SAME_SIGN = {
    ("¥", "yen"),
    ("¥", "yuan"),
    ("yen", "¥"),
    ("yuan", "¥"),
    ("celsius", "degree"),
    ("fahrenheit", "degree"),
}
"""Units of a reference and of an answer that are written with the same sign: 25° may be 25 °C, an angle is not."""
_CERTAIN = [measure(unit) for unit in ("meter", "meter/second", "meter/second^2", "ohm")]
"""What letters measure that stand for a unit even where the reference has none: 42 m; 5 g may be five times g."""


def has_quantity(reference: Node, answer: Node) -> bool:
    if isinstance(reference, Quantity) or isinstance(answer, Quantity):
        return True
    letters = _with_letters(answer)
    return letters is not None and (not symbols(reference) or _with_letters(reference) is not None)


def _with_letters(node: Node) -> Quantity | None:
    """``3.6 MJ`` or ``9.8 m/s^2`` as a quantity, although its letters were read as variables; None without units."""
    if not isinstance(node, (Product, Quotient)):
        return None
    quantity = _as_quantity(node, Quantity(Number(Fraction(1)), "meter"))
    return quantity if isinstance(quantity, Quantity) else None


def same_quantity(comparison: Comparison, reference: Node, answer: Node) -> bool:
    """A unit that only one side has is dropped. Two units must measure the same, and are converted."""
    if not isinstance(reference, Quantity) and not isinstance(answer, Quantity):
        if same_expression(comparison, reference, answer):
            return True
        mine, other_side = _with_letters(reference), _with_letters(answer)
        if mine is None and other_side is not None and not symbols(reference):
            return measure(other_side.unit) in _CERTAIN and comparison.same_value(reference, other_side.value)
        if mine is None or other_side is None:
            return False
        reference, answer = mine, other_side
    if isinstance(reference, Quantity) != isinstance(answer, Quantity):
        reference, answer = _as_quantity(reference, answer), _as_quantity(answer, reference)
    value, unit = split(reference)
    other, other_unit = split(answer)
    if isinstance(value, Quantity) or isinstance(other, Quantity):
        return reference == answer  # 30 %° is no angle.
    letters = None if other_unit or not unit or symbols(value) else _with_letters(other)
    if letters is not None and not unit.startswith(letters.unit):
        return False  # 10 m/s are 10 m/s north, and 5 m are not 5 ways.
    if unit and other_unit:
        if unit == other_unit or (unit, other_unit) in _SAME_SIGN:
            return comparison.same_value(value, other)
        if {unit, other_unit} == {"degree", "radian"}:
            return same_expression(comparison, _radians(reference), _radians(answer))
        size, other_size = measure(unit), measure(other_unit)
        if size is not None and other_size is not None:
            if size.dimension == other_size.dimension:
                return comparison.same_value(Product((value, Number(size.size / other_size.size))), other)
        elif size is None and other_size is None and same_thing(unit, other_unit):
            return comparison.same_value(value, other)
        comparison.reached(Stage.STRUCTURE)
        return False
    if other_unit and not is_countable(other_unit, one=value == Number(Fraction(1))):
        return False
    if comparison.same_value(value, other):
        # 28 may be 28 %, and a half is no half per cent.
        number = exact(value) if other_unit == "percent" else None
        return number is None or abs(number) >= 1 or number == 0
    if "percent" in (unit, other_unit):
        return comparison.same_value(_without_percent(reference), _without_percent(answer))
    if "degree" in (unit, other_unit):
        return comparison.same_value(_radians(reference), _radians(answer))
    return False


def _as_quantity(node: Node, other: Node) -> Node:
    """``9.8 m s^{-2}``, whose letters were read as variables, as a quantity if the other side has a known unit."""
    if isinstance(node, Quantity) or not isinstance(node, (Product, Quotient)) or not isinstance(other, Quantity):
        return node
    if measure(other.unit) is None or not symbols(node):
        return node
    last = node.factors[-1] if isinstance(node, Product) else node
    if isinstance(node, Product) and isinstance(last, Quotient) and not symbols(Product(node.factors[:-1])):
        node = Quotient(Product((*node.factors[:-1], last.numerator)), last.denominator)  # 9.8 \frac{m}{s^2}
    above = node.numerator if isinstance(node, Quotient) else node
    below = _units_of((node.denominator,)) if isinstance(node, Quotient) else ""
    factors = above.factors if isinstance(above, Product) else (above,)
    numbers = tuple(factor for factor in factors if not symbols(factor))
    letters = _units_of(tuple(factor for factor in factors if symbols(factor)))
    if letters is None or below is None or not numbers or symbols(factors[0]):
        return node
    unit = letters + (f"/{below}" if below else "")
    return node if measure(unit) is None else Quantity(Product(numbers) if len(numbers) > 1 else numbers[0], unit)


def _units_of(factors: tuple[Node, ...]) -> str | None:
    """Letters with their powers as units; two letters may be one unit: ``GN``."""
    if len(factors) > 1 and all(isinstance(factor, Symbol) for factor in factors):
        letters = "".join(_letter(factor.name) for factor in factors if isinstance(factor, Symbol))
        whole = one_unit(letters)
        if measure(whole) is not None:
            return whole
    names = []
    for factor in factors:
        base = factor.base if isinstance(factor, Power) else factor
        power = exact(factor.exponent) if isinstance(factor, Power) else Fraction(1)
        if not isinstance(base, Symbol) or power is None or power.denominator != 1:
            return None
        names.append(f"{one_unit(_letter(base.name))}^{power}")
    return " ".join(names)


def _letter(name: str) -> str:
    return {"\\mu": "µ", "\\Omega": "Ω"}.get(name, name)


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


def is_based(reference: Node, answer: Node) -> bool:
    """Whether the reference has a base and the answer is a plain number: the question already names the base."""
    if isinstance(answer, BasedNumber) and isinstance(reference, Number):
        # 11001_2 for 11001: nobody means eleven thousand.
        return answer.base == 2 and len(answer.digits) > 3 and str(reference.value) == answer.digits
    return isinstance(reference, BasedNumber) and isinstance(answer, Number)


def same_digits(comparison: Comparison, reference: Node, answer: Node) -> bool:
    if isinstance(answer, BasedNumber):
        reference, answer = answer, reference
    assert isinstance(reference, BasedNumber)
    assert isinstance(answer, Number)
    return str(answer.value) == reference.digits
