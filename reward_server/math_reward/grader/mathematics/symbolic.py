"""The last stage: SymPy compares two expressions that points could not decide about.

Its expressions are built from the trees, so SymPy never sees text. It may take long; the caller's deadline stops it.
"""

from typing import Any

from math_reward.grader.notation.syntax import (
    EXPRESSIONS,
    ONE,
    BasedNumber,
    BigOperator,
    Call,
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
    Symbol,
    bound_by,
    differential,
    rebuilt,
    walk,
)
from math_reward.grader.words.functions import known

MAX_NODES = 80
"""SymPy gets no larger expression: the two count as different."""

MAX_EXPONENT = 100
"""SymPy gets no expression with a larger number as an exponent."""

_CONSTANTS = frozenset(["pi", "e", "i", "infinity"])
_KINDS = frozenset([*EXPRESSIONS, Relation])


class _NoEquivalent(ValueError):
    """A part of the expression has no equivalent in SymPy."""


def equal(left: Node, right: Node) -> bool:
    """True if SymPy proves the two expressions equal; False if it does not, or they have more than ``MAX_NODES``."""
    if sum(1 for _ in walk(left)) + sum(1 for _ in walk(right)) > MAX_NODES:
        return False
    if not (_is_known(left) and _is_known(right)):
        return False
    import sympy  # Importing it takes a third of a second, and few expressions need it.

    try:
        difference = _build(left) - _build(right)
    except (_NoEquivalent, ArithmeticError, TypeError, ValueError):
        return False
    if difference.has(sympy.nan, sympy.zoo, sympy.oo):
        return False  # Infinity less infinity is not zero.
    return bool(sympy.simplify(difference) == 0)


def _is_known(node: Node) -> bool:
    """Whether every part has an equivalent in SymPy; if not, there is no need to import it."""
    parts = list(walk(node))
    bound = {name for part in parts if isinstance(part, BigOperator) for name in bound_by(part)}
    return not any(
        type(part) not in _KINDS
        or (isinstance(part, Call) and not known(part.function).sympy)
        or (isinstance(part, Constant) and part.name not in _CONSTANTS)
        or (isinstance(part, Power) and isinstance(part.exponent, Number) and abs(part.exponent.value) > MAX_EXPONENT)
        # F_k under a sum over k is an unknown function of k, and not a variable.
        or (isinstance(part, Symbol) and bound.intersection(part.name.partition("_")[2]))
        for part in parts
    )


def _build(node: Node) -> Any:
    import sympy

    match node:
        case Number():
            return sympy.Rational(node.value.numerator, node.value.denominator)
        case BasedNumber():
            return sympy.Rational(node.value.numerator, node.value.denominator)
        case Symbol():
            return sympy.Symbol(node.name)
        case Constant(name="pi"):
            return sympy.pi
        case Constant(name="e"):
            return sympy.E
        case Constant(name="i"):
            return sympy.I
        case Negative():
            return -_build(node.operand)
        case Sum():
            return sympy.Add(*map(_build, node.terms))
        case Product():
            return sympy.Mul(*map(_build, node.factors))
        case Quotient():
            return _build(node.numerator) / _build(node.denominator)
        case Power():
            return _build(node.base) ** _build(node.exponent)
        case Quantity(unit="percent"):
            return _build(node.value) / 100
        case Quantity(unit="degree"):
            return _build(node.value) * sympy.pi / 180
        case Constant(name="infinity"):
            return sympy.oo
        case BigOperator():
            return _big_operator(node)
        case Call():
            if name := known(node.function).sympy:
                return getattr(sympy, name)(*map(_build, node.arguments))
    raise _NoEquivalent


def _big_operator(node: BigOperator) -> Any:
    """A sum, a product, an integral or a limit, calculated."""
    import sympy

    names = bound_by(node) - {"d"}
    if len(names) != 1:
        raise _NoEquivalent
    (name,) = names
    variable = sympy.Symbol(name)
    if "int" in node.name:
        body = _build(rebuilt(node.body, lambda part: _without_differential(part, name)))
        if node.lower is None or node.upper is None or node.name != "int":
            raise _NoEquivalent
        result = sympy.integrate(body, (variable, _build(node.lower), _build(node.upper)))
    elif node.name == "lim" and isinstance(node.lower, Relation) and node.lower.operators == ("to",):
        result = sympy.limit(_build(node.body), variable, _build(node.lower.operands[-1]))
    elif (
        node.name in ("sum", "prod")
        and isinstance(node.lower, Relation)
        and node.lower.operators == ("=",)
        and node.upper is not None
    ):
        bounds = (variable, _build(node.lower.operands[-1]), _build(node.upper))
        calculate = sympy.summation if node.name == "sum" else sympy.product
        result = calculate(_build(node.body), bounds)
    else:
        raise _NoEquivalent
    if result.has(sympy.Sum, sympy.Product, sympy.Integral, sympy.Limit, sympy.nan, sympy.zoo):
        raise _NoEquivalent
    return result


def _without_differential(part: Node, name: str) -> Node | None:
    """A product without its ``dx``."""
    dx = differential(part.factors) if isinstance(part, Product) else None
    if dx is None or dx[1] != name:
        return None
    assert isinstance(part, Product)
    rest = part.factors[: dx[0]] + part.factors[dx[0] + 2 :]
    return Product(rest) if rest else ONE
