r"""Derivatives, rule by rule on the tree; and references that are a derivative or an indefinite integral."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from math_reward.grader.notation.exact import exact
from math_reward.grader.notation.parse import parse
from math_reward.grader.notation.syntax import (
    ONE,
    ZERO,
    BigOperator,
    Call,
    Constant,
    Negative,
    Node,
    Number,
    Power,
    Product,
    Quotient,
    Sum,
    Symbol,
    difference,
    differential,
    rebuilt,
    substituted,
    symbols,
    walk,
)
from math_reward.grader.words.functions import known

MAX_NODES = 400
"""A derivative with more parts is not calculated."""
MAX_ORDER = 6

_TWO = Number(Fraction(2))


class NoDerivative(ValueError):
    """The expression has a part whose derivative is not known."""


def derivative(node: Node, name: str) -> Node:
    """The derivative of ``node`` by the variable ``name``.

    Raises:
        NoDerivative: a part of it has none that is known, or it is too large.
    """
    tree = _derivative(node, name)
    if sum(1 for _ in walk(tree)) > MAX_NODES:
        raise NoDerivative
    return tree


def _derivative(node: Node, name: str) -> Node:
    if isinstance(node, Symbol):
        return ONE if node.name == name else ZERO
    if name not in symbols(node):
        return ZERO
    match node:
        case Negative():
            return _negative(_derivative(node.operand, name))
        case Sum():
            return _sum([_derivative(term, name) for term in node.terms])
        case Product():
            return _sum(
                [
                    _product([_derivative(factor, name), *node.factors[:index], *node.factors[index + 1 :]])
                    for index, factor in enumerate(node.factors)
                ]
            )
        case Quotient(numerator=above, denominator=below):
            slope = _sum(
                [
                    _product([_derivative(above, name), below]),
                    _negative(_product([above, _derivative(below, name)])),
                ]
            )
            return Quotient(slope, Power(below, _TWO))
        case Power():
            return _power(node, name)
        case Call(arguments=(argument, *_)):
            return _product([_outer(node, name), _derivative(argument, name)])
    raise NoDerivative


def _power(node: Power, name: str) -> Node:
    base, exponent = node.base, node.exponent
    if name not in symbols(exponent):
        lowered = Power(base, difference(exponent, ONE))
        return _product([exponent, lowered, _derivative(base, name)])
    by_exponent = _product([node, Call("log", (base,)), _derivative(exponent, name)])
    if name not in symbols(base):
        return _product([node, _derivative(exponent, name)]) if base == Constant("e") else by_exponent
    return _sum([by_exponent, _product([exponent, Quotient(node, base), _derivative(base, name)])])


def _outer(node: Call, name: str) -> Node:
    """The derivative of a function, at its argument."""
    x = node.arguments[0]
    function = node.function
    if function == "root" and exact(node.arguments[1]):
        power = Quotient(ONE, node.arguments[1])
        return Product((power, Power(x, difference(power, ONE))))
    if function == "log" and len(node.arguments) == 2 and name not in symbols(node.arguments[1]):
        return Quotient(ONE, Product((x, Call("log", (node.arguments[1],)))))
    if len(node.arguments) != 1:
        raise NoDerivative

    if not known(function).derivative:
        raise NoDerivative
    return substituted(_written(function), {"x": x})


@lru_cache
def _written(function: str) -> Node:
    """The derivative of a function at x."""
    return parse(known(function).derivative)


def _negative(node: Node) -> Node:
    return node if node == ZERO else Negative(node)


def _sum(terms: list[Node]) -> Node:
    kept = tuple(term for term in terms if term != ZERO)
    return Sum(kept) if len(kept) > 1 else kept[0] if kept else ZERO


def _product(factors: list[Node]) -> Node:
    if ZERO in factors:
        return ZERO
    kept = tuple(factor for factor in factors if factor != ONE)
    return Product(kept) if len(kept) > 1 else kept[0] if kept else ONE


# ── what a reference asks to be done ──


def differentiated(node: Node) -> Node:
    r"""``node`` with every ``\frac{d}{dx} ...`` in it calculated, where that is known."""
    if not any(isinstance(part, Call) and part.function == "derivative by" for part in walk(node)):
        return node

    def change(part: Node) -> Node | None:
        if not isinstance(part, Product):
            return None
        place = next((i for i, factor in enumerate(part.factors) if _is_operator(factor)), None)
        if place is None or place + 1 == len(part.factors):
            return None
        operator = part.factors[place]
        assert isinstance(operator, Call)
        variable = operator.arguments[0]
        order = exact(operator.arguments[1]) if len(operator.arguments) == 2 else Fraction(1)
        if not isinstance(variable, Symbol) or order is None or not 1 <= order <= MAX_ORDER:
            return None
        body = _product([differentiated(factor) for factor in part.factors[place + 1 :]])
        try:
            for _ in range(int(order)):
                body = derivative(body, variable.name)
        except NoDerivative:
            return None
        return _product([*part.factors[:place], body])

    return rebuilt(node, change)


def _is_operator(node: Node) -> bool:
    return isinstance(node, Call) and node.function == "derivative by"


def integrand(node: Node) -> tuple[Node, str] | None:
    r"""What stands under an indefinite integral, and its variable; None where ``node`` is none."""
    if not isinstance(node, BigOperator) or node.name != "int" or node.lower or node.upper:
        return None
    body = node.body
    if isinstance(body, Quotient) and isinstance(body.numerator, Product):  # \int \frac{dx}{x}
        inner = _without_differential(body.numerator)
        return None if inner is None else (Quotient(inner[0], body.denominator), inner[1])
    return _without_differential(body) if isinstance(body, Product) else None


def _without_differential(body: Product) -> tuple[Node, str] | None:
    dx = differential(body.factors[-2:])
    return None if dx is None else (_product(list(body.factors[:-2])), dx[1])
