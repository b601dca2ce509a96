r"""The functions that an answer may name, one row each: how they are written, and everything that is known of them.

Values at points are calculated in a field: floating point or many digits, as ``evaluation.py`` has them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

from math_reward.grader.errors import TooComplex, Undefined
from math_reward.grader.words.vocabulary import GREEK

MAX_FACTORIAL = 2_500
"""The largest number whose factorial is calculated exactly."""

Value = Any
"""float or complex, or mpmath's mpf or mpc."""


class Function(NamedTuple):
    """What is known of a function; a field is empty where nothing is."""

    spellings: str = ""
    """Its names as written, with or without a backslash."""
    value: Callable[..., Value] | None = None
    """Its value in a field at values of the field."""
    exact: Callable[..., Fraction | None] | None = None
    """Its value at rational numbers; None where that is not rational."""
    sympy: str = ""
    """Its name in SymPy."""
    derivative: str = ""
    """Its derivative at x, as it is written."""
    inverse: str = ""
    """The function that an exponent -1 names."""
    breaks: str = ""
    """Where its formula changes: "step" (it jumps), "corner" (where its argument is zero) or "branch"."""
    is_whole: bool = False
    """Whether its variables are whole numbers."""
    arguments: tuple[int, int] = (1, 1)
    """The least and the most arguments."""


# ── values in a field ──


def undefined() -> Value:
    """Raises Undefined."""
    raise Undefined("it has no value there")


def _elementary(name: str) -> Callable[..., Value]:
    return lambda field, value: field.function(name, value)


def _reciprocal(name: str) -> Callable[..., Value]:
    return lambda field, value: 1 / field.function(name, value)


def _of_reciprocal(name: str) -> Callable[..., Value]:
    return lambda field, value: field.function(name, 1 / value)


def _log(field: Any, value: Value, base: Value = None) -> Value:
    if value == 0:
        undefined()
    result = field.function("log", value)
    return result if base is None else result / field.function("log", base)


def _root(field: Any, value: Value, index: Value) -> Value:
    whole = int(field.real(index))
    if whole == index and 2 <= whole <= 1000:
        return field.root(value, whole)
    return field.power(value, 1 / index)


def _whole(function: Callable[..., int]) -> Callable[..., Value]:
    def rule(field: Any, *values: Value) -> Value:
        numbers = [int(field.real(value)) for value in values]
        if any(number != value for number, value in zip(numbers, values, strict=True)):
            undefined()
        return field.number(Fraction(function(*numbers)))

    return rule


def _rounded(function: Callable[[Any], int]) -> Callable[..., Value]:
    def rule(field: Any, value: Value) -> Value:
        return field.number(Fraction(function(_real(field, value))))

    return rule


def _real(field: Any, value: Value) -> Value:
    """``value`` if it is real: what orders numbers, or takes remainders, has no value at others."""
    return field.real(value) if field.is_real(value) else undefined()


def _extreme(function: Callable[..., Any]) -> Callable[..., Value]:
    return lambda field, *values: function([_real(field, value) for value in values])


def _double_factorial(field: Any, value: Value) -> Value:
    n = int(field.real(value))
    if n != value or not 0 <= n <= 300:
        undefined()
    return field.number(Fraction(math.prod(range(n, 0, -2))))


def _choose(field: Any, n: Value, k: Value) -> Value:
    return field.factorial(n) / (field.factorial(k) * field.factorial(n - k))


def _conjugate(field: Any, value: Value) -> Value:
    return 2 * field.real(value) - value


def _argument(field: Any, value: Value) -> Value:
    if not value:
        undefined()
    return field.real(field.function("log", value) / field.i) if not field.is_real(value) or value < 0 else value * 0


def _sign(field: Any, value: Value) -> Value:
    real = _real(field, value)
    return field.number(Fraction((real > 0) - (real < 0)))


# ── exact values ──


def exact_root(value: Fraction, index: int) -> Fraction | None:
    """The root of a rational number if it is rational; else None."""
    numerator, denominator = _integer_root(value.numerator, index), _integer_root(value.denominator, index)
    return None if numerator is None or denominator is None else Fraction(numerator, denominator)


def _integer_root(value: int, index: int) -> int | None:
    if value < 0:
        inner = _integer_root(-value, index) if index % 2 else None
        return None if inner is None else -inner
    if index == 2:
        root = math.isqrt(value)
    else:
        if value.bit_length() > 1000:
            return None
        root = round(value ** (1 / index)) if value else 0
    return root if root**index == value else None


def _natural(value: Fraction) -> int | None:
    if value.denominator != 1:
        return None
    if value < 0:
        raise Undefined("the factorial of a negative number")
    if value > MAX_FACTORIAL:
        raise TooComplex(f"a factorial in it is of a number above {MAX_FACTORIAL:,}")
    return value.numerator


def _of_naturals(function: Callable[..., int]) -> Callable[..., Fraction | None]:
    def rule(*values: Fraction) -> Fraction | None:
        numbers = [_natural(value) for value in values]
        return None if None in numbers else Fraction(function(*numbers))

    return rule


def _of_integers(function: Callable[..., int]) -> Callable[..., Fraction | None]:
    def rule(*values: Fraction) -> Fraction | None:
        if any(value.denominator != 1 for value in values):
            return None
        return Fraction(function(*(value.numerator for value in values)))

    return rule


def _exact_nth_root(value: Fraction, index: Fraction) -> Fraction | None:
    return exact_root(value, index.numerator) if index.denominator == 1 and 2 <= index <= 64 else None


def _remainder(a: Fraction, b: Fraction) -> Fraction:
    if b == 0:
        raise Undefined("a division by zero")
    return a % b


# ── the table ──

_CHOICES = Function("binom", _choose, _of_naturals(math.comb), "binomial", is_whole=True, arguments=(2, 2))

FUNCTIONS = {
    "sin": Function("sin", _elementary("sin"), None, "sin", r"\cos x", "asin"),
    "cos": Function("cos", _elementary("cos"), None, "cos", r"-\sin x", "acos"),
    "tan": Function("tan tg", _elementary("tan"), None, "tan", r"\sec^2 x", "atan"),
    "cot": Function("cot ctg", _reciprocal("tan"), None, "cot", r"-\csc^2 x", "acot"),
    "sec": Function("sec", _reciprocal("cos"), None, "sec", r"\sec x \tan x", "asec"),
    "csc": Function("csc cosec", _reciprocal("sin"), None, "csc", r"-\csc x \cot x", "acsc"),
    "sinh": Function("sinh", _elementary("sinh"), None, "sinh", r"\cosh x", "asinh"),
    "cosh": Function("cosh", _elementary("cosh"), None, "cosh", r"\sinh x", "acosh"),
    "tanh": Function("tanh", _elementary("tanh"), None, "tanh", r"\sech^2 x", "atanh"),
    "coth": Function("coth", _reciprocal("tanh"), None, "coth"),
    "sech": Function("sech", _reciprocal("cosh"), None, "sech"),
    "csch": Function("csch", _reciprocal("sinh"), None, "csch"),
    "asin": Function("arcsin asin", _elementary("asin"), None, "asin", r"1/\sqrt{1-x^2}", breaks="branch"),
    "acos": Function("arccos acos", _elementary("acos"), None, "acos", r"-1/\sqrt{1-x^2}", breaks="branch"),
    "atan": Function("arctan atan arctg", _elementary("atan"), None, "atan", "1/(1+x^2)", breaks="branch"),
    "acot": Function(
        "arccot arcctg", lambda field, x: field.pi / 2 - field.function("atan", x), None, "acot", breaks="branch"
    ),
    "asec": Function("arcsec", _of_reciprocal("acos"), None, "asec", breaks="branch"),
    "acsc": Function("arccsc", _of_reciprocal("asin"), None, "acsc", breaks="branch"),
    "asinh": Function("arcsinh asinh arsinh", _elementary("asinh"), None, "asinh", r"1/\sqrt{x^2+1}"),
    "acosh": Function("arccosh acosh arcosh", _elementary("acosh"), None, "acosh", r"1/\sqrt{x^2-1}"),
    "atanh": Function("arctanh atanh artanh", _elementary("atanh"), None, "atanh", "1/(1-x^2)"),
    "exp": Function("exp", _elementary("exp"), None, "exp", r"\exp x"),
    "log": Function("ln log", _log, None, "log", "1/x", breaks="branch", arguments=(1, 2)),
    "log10": Function("lg"),
    "sqrt": Function(
        "sqrt", _elementary("sqrt"), lambda x: exact_root(x, 2), "sqrt", r"1/(2\sqrt{x})", breaks="corner"
    ),
    "root": Function("", _root, _exact_nth_root, "root", breaks="corner"),
    "abs": Function("abs", lambda field, x: abs(x), abs, "Abs", "x/|x|", breaks="corner"),
    "floor": Function("floor", _rounded(math.floor), lambda x: Fraction(math.floor(x)), "floor", breaks="step"),
    "ceil": Function("ceil", _rounded(math.ceil), lambda x: Fraction(math.ceil(x)), "ceiling", breaks="step"),
    "max": Function("max", _extreme(max), lambda *xs: max(xs), "Max", breaks="corner", arguments=(1, 99)),
    "min": Function("min", _extreme(min), lambda *xs: min(xs), "Min", breaks="corner", arguments=(1, 99)),
    "gcd": Function(
        "gcd", _whole(math.gcd), _of_integers(math.gcd), "gcd", breaks="step", is_whole=True, arguments=(1, 99)
    ),
    "lcm": Function(
        "lcm", _whole(math.lcm), _of_integers(math.lcm), "lcm", breaks="step", is_whole=True, arguments=(1, 99)
    ),
    "mod": Function(
        "", lambda field, a, b: _real(field, a) % _real(field, b), _remainder, "Mod", breaks="step", is_whole=True
    ),
    "factorial": Function(
        "", lambda field, x: field.factorial(x), _of_naturals(math.factorial), "factorial", is_whole=True
    ),
    "double factorial": Function(
        "", _double_factorial, _of_naturals(lambda n: math.prod(range(n, 0, -2))), "factorial2", is_whole=True
    ),
    "binom": _CHOICES,
    "choose": _CHOICES._replace(spellings=""),
    "gamma": Function("", lambda field, x: field.factorial(x - 1), None, "gamma"),
    "zeta": Function("", lambda field, x: field.zeta(x), None, "zeta"),
    "cis": Function("cis", lambda field, x: field.function("exp", field.i * x)),
    "re": Function("Re", lambda field, x: field.real(x), None, "re", breaks="branch"),
    "im": Function("Im", lambda field, x: field.real((x - field.real(x)) / field.i), None, "im", breaks="branch"),
    "conj": Function("conj", _conjugate, breaks="branch"),
    "overline": Function("", _conjugate),
    "bar": Function("", _conjugate),
    "arg": Function("arg", _argument, None, "arg", breaks="branch"),
    "Arg": Function("Arg", _argument),
    "sgn": Function("sgn", _sign, breaks="step"),
    "degree of": Function("deg"),
    "det": Function("det"),
    "tr": Function("tr"),
    "diag": Function("diag", arguments=(1, 8)),
    "operatorname": Function("operatorname"),
}
"""A function's name in the tree to what is known of it. ``log`` is the natural one."""

SPELLED = {spelling: name for name, function in FUNCTIONS.items() for spelling in function.spellings.split()}
"""A function's name as written, with or without a backslash, to its name in the tree."""


SYMPY_NAMES = {
    function.sympy: name for name, function in FUNCTIONS.items() if function.sympy and name not in ("re", "im")
} | {
    "binomial": "binom", "cbrt": "cbrt", "Rational": "fraction", "S": "number", "Eq": "=", "Interval": "interval",
    "FiniteSet": "set", "Union": "union", "Intersection": "intersection", "Tuple": "tuple", "conjugate": "conj",
    "sign": "sgn", "Pow": "power", "nthRoot": "root", "mod": "mod", "Ne": "!=", "Lt": "<", "Le": "<=",
    "Gt": ">", "Ge": ">=",
    "Derivative": "derivative", "Integral": "int", "Sum": "sum", "Product": "prod", "Limit": "lim",
}  # fmt: skip
"""A name that SymPy calls, as in references, to the function's name or to what it makes."""


def known(name: str) -> Function:
    """What is known of a function; nothing of one that is not in the table."""
    return FUNCTIONS.get(name, _UNKNOWN)


_UNKNOWN = Function()

_SPLITTABLE = (
    "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "sqrt", "sin", "cos", "tan", "cot", "sec", "csc", "log",
    "ln",
)  # fmt: skip


def function_suffix(word: str) -> str | None:
    """The ``sin`` of ``xsin``."""
    return next((name for name in _SPLITTABLE if word.endswith(name) and len(word) - len(name) in (1, 2)), None)


def function_prefix(word: str) -> str | None:
    """The ``sin`` of ``sinx``: people forget the space."""
    for name in _SPLITTABLE:
        if word.startswith(name) and (len(word) - len(name) in (1, 2) or word[len(name) :] in GREEK):
            return name
    return None
