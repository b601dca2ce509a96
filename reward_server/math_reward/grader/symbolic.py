"""The last stage: what points could not decide is asked of SymPy, on an expression that is built from the tree.

SymPy never sees text. It may take long; the caller's deadline is what stops it."""

from typing import Any

from math_reward.grader.syntax import (
    BasedNumber,
    Call,
    Constant,
    Negative,
    Node,
    Number,
    Power,
    Product,
    Quantity,
    Quotient,
    Sum,
    Symbol,
    walk,
)

MAX_NODES = 80
"""A larger expression is not given to SymPy: it is taken for different."""

MAX_EXPONENT = 100
"""Of a power in it, as a number; nor is a larger one."""

_NAMES = {
    "binom": "binomial",
    "choose": "binomial",
    "abs": "Abs",
    "ceil": "ceiling",
    "double factorial": "factorial2",
    "max": "Max",
    "min": "Min",
    "mod": "Mod",
}
_SAME_NAMES = frozenset(
    [
        "sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh", "coth", "sech", "csch", "asin", "acos",
        "atan", "acot", "asec", "acsc", "asinh", "acosh", "atanh", "exp", "log", "sqrt", "root", "factorial",
        "floor", "gcd", "lcm", "re",
    ]
)  # fmt: skip


class _NoEquivalent(ValueError):
    """SymPy has nothing for a part of the expression."""


def equal(left: Node, right: Node) -> bool:
    """True where SymPy proves the two expressions equal; False where it does not or they are beyond ``MAX_NODES``."""
    if sum(1 for _ in walk(left)) + sum(1 for _ in walk(right)) > MAX_NODES:
        return False
    import sympy  # Only the rare expression that gets here pays for it.

    try:
        difference = _build(left, sympy) - _build(right, sympy)
    except (_NoEquivalent, ArithmeticError, TypeError, ValueError):
        return False
    return bool(sympy.simplify(difference) == 0)


def _build(node: Node, sympy: Any) -> Any:
    def build(part: Node) -> Any:
        return _build(part, sympy)

    match node:
        case Number():
            return sympy.Rational(node.value.numerator, node.value.denominator)
        case BasedNumber():
            return sympy.Integer(int(node.digits, node.base))
        case Symbol():
            return sympy.Symbol(node.name)
        case Constant(name="pi"):
            return sympy.pi
        case Constant(name="e"):
            return sympy.E
        case Constant(name="i"):
            return sympy.I
        case Negative():
            return -build(node.operand)
        case Sum():
            return sympy.Add(*map(build, node.terms))
        case Product():
            return sympy.Mul(*map(build, node.factors))
        case Quotient():
            return build(node.numerator) / build(node.denominator)
        case Power(exponent=Number(value=value)) if abs(value) > MAX_EXPONENT:
            raise _NoEquivalent  # SymPy would multiply it out
        case Power():
            return build(node.base) ** build(node.exponent)
        case Quantity(unit="percent"):
            return build(node.value) / 100
        case Quantity(unit="degree"):
            return build(node.value) * sympy.pi / 180
        case Call():
            name = _NAMES.get(node.function, node.function if node.function in _SAME_NAMES else None)
            if name is not None:
                return getattr(sympy, name)(*map(build, node.arguments))
    raise _NoEquivalent
