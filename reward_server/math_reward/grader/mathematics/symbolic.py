"""The last stage: SymPy compares two expressions that points could not decide about.

Its expressions are built from the trees, so SymPy never sees text. It may take long; the caller's deadline stops it.
"""

from typing import Any

from math_reward.grader.errors import TooComplex, Undefined
from math_reward.grader.mathematics import numeric
from math_reward.grader.notation.exact import exact
from math_reward.grader.notation.syntax import (
    EXPRESSIONS,
    ONE,
    ZERO,
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
    substituted,
    symbols,
    walk,
)
from math_reward.grader.words.functions import known

MAX_NODES = 80
"""SymPy gets no larger expression: the two count as different."""

MAX_EXPONENT = 100
"""SymPy gets no expression with a larger number as an exponent."""

TERMS, LEAST_TERMS = 16, 6
"""How many terms of two series are calculated, and how many of these must not be zero to be compared."""

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


def same_series(left: Node, right: Node) -> bool | None:
    """Whether two infinite sums, or a sum and a function, are the same: not where their values differ at a point, nor,
    of two sums, where their terms do. None where it does not show, and SymPy takes up to a second.
    """
    if not (_is_known(left) and _is_known(right)):
        return None
    if numeric.where_they_differ(left, right) is not None:
        return False
    parts = (*walk(left), *walk(right))
    if any(isinstance(part, Call) and known(part.function).breaks in ("step", "corner") for part in parts):
        return None  # The terms may differ from some index on.
    try:
        mine, theirs = _terms(left), _terms(right)
        if min(len(mine), len(theirs)) >= LEAST_TERMS:
            return all(numeric.same_function(a, b) for a, b in zip(mine, theirs, strict=False))
    except (numeric.Unknown, Undefined, TooComplex):
        pass
    return None


def _terms(node: Node) -> list[Node]:
    """The first terms of an infinite sum that are not zero; none for another expression."""
    terms = [term for index in range(TERMS) if (term := _term(node, index)) is not None]
    return [term for term in terms if not numeric.same_function(term, ZERO)]


def _term(node: Node, index: int) -> Node | None:
    """A term of an infinite sum, with what stands before the sum as a factor; None where ``node`` is none."""
    match node:
        case BigOperator("sum", Relation(("=",), (Symbol(name), begin)), Constant("infinity"), body):
            start = exact(begin)
            return None if start is None else substituted(body, {name: Number(start + index)})
        case Negative(operand):
            term = _term(operand, index)
            return term and Negative(term)
        case Quotient(numerator, denominator):
            term = _term(numerator, index)
            return term and Quotient(term, denominator)
        case Product(factors):
            terms = [_term(factor, index) for factor in factors]
            if len(factors) - terms.count(None) == 1:
                return Product(tuple(term or factor for term, factor in zip(terms, factors, strict=True)))
    return None


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
        calls = (part for part in walk(node.body) if isinstance(part, Call))
        if any(call.function in ("sin", "cos") and name in symbols(call) for call in calls):
            raise _NoEquivalent  # after ten seconds without a result
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
