"""Draws a syntax tree as presentation MathML, which browsers show without a script.

KaTeX, MathJax and latex2mathml would draw the LaTeX as it was written, and SymPy's printer what SymPy has made of it.
This draws the tree, so a user sees how the grader read it: x^10 as a power with exponent 10, which TeX sets as x¹0.
Nor do the first two run under the page's Content-Security-Policy, which allows no styles inside the HTML.
The elements are those of MathML Core (https://www.w3.org/TR/mathml-core/).
Brackets are where a reader needs them, whether or not the answer had them there.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from fractions import Fraction
from html import escape
from html.entities import html5
from typing import Any

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
)

# How tightly a construct binds. An operand that binds less tightly than its place needs gets brackets.
_LIST, _RELATION, _SETS, _SUM, _PRODUCT, _FACTOR, _ATOM = range(7)

_RELATIONS = {"!=": "≠", "<=": "≤", ">=": "≥", "~": "≈", "in": "∈", "notin": "∉", "to": "→", "subset": "⊆"}
_SET_OPERATORS = {"union": "∪", "intersection": "∩", "difference": "∖"}
_BIG_OPERATORS = {"sum": "∑", "prod": "∏", "int": "∫", "iint": "∬", "iiint": "∭", "oint": "∮"}
_INTEGRALS = ("int", "iint", "iiint", "oint")
_CONSTANTS = {
    "pi": "π", "infinity": "∞", "emptyset": "∅",
    "reals": "ℝ", "integers": "ℤ", "naturals": "ℕ", "rationals": "ℚ", "complexes": "ℂ",
}  # fmt: skip
_UNITS = {"percent": "%", "degree": "°", "dollar": "$", "cent": "¢", "euro": "€", "pound sterling": "£", "yen": "¥"}
_BEFORE_THE_VALUE = ("dollar", "euro", "pound sterling", "yen")
_AT_THE_VALUE = ("percent", "degree", "cent")
_FENCES = {"abs": ("|", "|"), "floor": ("⌊", "⌋"), "ceil": ("⌈", "⌉")}
_POSTFIXES = {"factorial": "!", "double factorial": "!!", "prime": "′"}
_ACCENTS = {
    "hat": "^", "widehat": "^", "bar": "¯", "overline": "¯", "tilde": "~", "widetilde": "~", "vec": "→",
    "overrightarrow": "→", "overleftarrow": "←", "dot": "˙", "ddot": "¨",
}  # fmt: skip
_FUNCTION_NAMES = {
    **{f"a{name}": f"arc{name}" for name in ("sin", "cos", "tan", "cot", "sec", "csc")},
    "asinh": "arsinh", "acosh": "arcosh", "atanh": "artanh", "degree of": "deg", "re": "Re", "im": "Im",
}  # fmt: skip


def to_mathml(node: Node) -> str:
    """``node`` as a ``<math>`` element that is well-formed both as HTML and as XML.

    All texts in the tree are escaped, so the element is safe in a page.

    Raises:
        RecursionError: the tree is much deeper than the parser's limit on nesting.
    """
    namespace = "http://www.w3.org/1998/Math/MathML"
    return f'<math xmlns="{namespace}" display="block">{_shown(node, _LIST)}</math>'


def _shown(node: Node, place: int) -> str:
    """``node``, in brackets if it binds less tightly than ``place``."""
    binding, markup = _DRAWERS[type(node)](node)
    return markup if binding >= place else _fenced("(", [markup], ")")


# ── the elements ──


def _element(name: str, *parts: str) -> str:
    return f"<{name}>{''.join(parts)}</{name}>"


def _row(*parts: str) -> str:
    return _element("mrow", *parts)


def _identifier(name: str) -> str:
    return _element("mi", escape(name))


def _numeral(digits: str) -> str:
    return _element("mn", escape(digits))


def _operator(sign: str) -> str:
    return _element("mo", escape(sign))


def _sign(sign: str) -> str:
    """An operator before its operand, without the space around one between two operands."""
    return f'<mo form="prefix">{escape(sign)}</mo>'


def _words(text: str) -> str:
    return _element("mtext", escape(text))


def _space(width: str = "0.25em") -> str:
    return f'<mspace width="{width}"></mspace>'


def _fenced(left: str, parts: Iterable[str], right: str) -> str:
    """``parts`` with commas between them, in brackets that grow with their contents."""
    opening = f'<mo form="prefix" stretchy="true">{escape(left)}</mo>'
    closing = f'<mo form="postfix" stretchy="true">{escape(right)}</mo>'
    return _row(opening, _joined(parts), closing)


def _joined(parts: Iterable[str], separator: str = ",") -> str:
    return _operator(separator).join(parts)


# ── the nodes: each function returns how tightly its node binds, and its markup ──

Drawn = tuple[int, str]


def _number(node: Number) -> Drawn:
    value = node.value
    if value < 0:
        return _SUM, _row(_sign("−"), _numeral_of(-value, node.places))
    fraction = node.places is None and value.denominator != 1
    return _FACTOR if fraction else _ATOM, _numeral_of(value, node.places)


def _numeral_of(value: Fraction, places: int | None) -> str:
    """A number without its sign, as it was written; a repeating decimal or a mixed number becomes a fraction."""
    if places is not None and (value * 10**places).denominator == 1:
        digits = f"{int(value * 10**places):0{places + 1}d}"
        return _numeral(f"{digits[:-places]}.{digits[-places:]}" if places else digits)
    if value.denominator == 1:
        return _numeral(str(value.numerator))
    return _element("mfrac", _numeral(str(value.numerator)), _numeral(str(value.denominator)))


def _symbol(node: Symbol) -> Drawn:
    name, _, index = node.name.partition("_")
    letter = _identifier(_letter(name))
    return _ATOM, _element("msub", letter, _identifier(_letter(index))) if index else letter


def _letter(name: str) -> str:
    """A variable's name, with the character for a Greek letter; HTML has the same names for them as LaTeX."""
    name = name.removeprefix("\\")
    character = html5.get(f"{name};", "")
    return character if len(character) == 1 and "GREEK" in unicodedata.name(character, "") else name


def _constant(node: Constant) -> Drawn:
    return _ATOM, _identifier(_CONSTANTS.get(node.name, node.name))


def _sum(node: Sum) -> Drawn:
    parts: list[str] = []
    for index, term in enumerate(node.terms):
        negative = type(term) is Negative
        if index:
            parts.append(_operator("−" if negative else "+"))
        elif negative:
            parts.append(_sign("−"))
        parts.append(_shown(term.operand if type(term) is Negative else term, _PRODUCT))
    return _SUM, _row(*parts)


def _product(node: Product) -> Drawn:
    parts: list[str] = []
    for index, factor in enumerate(node.factors):
        if index:
            parts.append(_times(node.factors[index - 1], factor))
        parts.append(_shown(factor, _FACTOR))
    return _PRODUCT, _row(*parts)


def _times(left: Node, right: Node) -> str:
    """A sign of multiplication. It is visible only where two factors without it would read as something else: 2 3 as
    23, 2 1/3 as a mixed number.
    """
    begins = right
    while type(begins) is Power:
        begins = begins.base
    digits_follow = type(begins) in (Number, BasedNumber, Quotient, ClockTime)
    words_meet = any(type(side) in (Text, Quantity) for side in (left, begins))
    if digits_follow or words_meet:
        return _operator("⋅")
    return _operator("\u2062") + (_space("0.17em") if type(begins) is Call else "")


def _quotient(node: Quotient) -> Drawn:
    return _FACTOR, _element("mfrac", _shown(node.numerator, _LIST), _shown(node.denominator, _LIST))


def _power(node: Power) -> Drawn:
    base = _shown(node.base, _ATOM)
    return _FACTOR, _element("msup", base, _shown(node.exponent, _LIST))


def _negative(node: Negative) -> Drawn:
    return _SUM, _row(_sign("−"), _shown(node.operand, _PRODUCT))


def _plus_minus(node: PlusMinus) -> Drawn:
    sign, right = "∓" if node.turned else "±", _shown(node.right, _PRODUCT)
    if node.left is None:
        return _SUM, _row(_sign(sign), right)
    return _SUM, _row(_shown(node.left, _SUM), _operator(sign), right)


def _call(node: Call) -> Drawn:
    name, arguments = node.function, node.arguments
    inside = [_shown(argument, _RELATION) for argument in arguments]
    if len(arguments) == 1:
        if name == "sqrt":
            return _ATOM, _element("msqrt", inside[0])
        if name in _FENCES:
            left, right = _FENCES[name]
            return _ATOM, _fenced(left, inside, right)
        if name in _POSTFIXES:
            return _FACTOR, _row(_shown(arguments[0], _ATOM), _operator(_POSTFIXES[name]))
        if name in _ACCENTS:
            over = f'<mo stretchy="true">{escape(_ACCENTS[name])}</mo>'
            return _ATOM, _element("mover", _row(inside[0]), over)
    if len(arguments) == 2:
        if name == "root":
            return _ATOM, _element("mroot", inside[0], inside[1])
        if name == "log":
            head = _element("msub", _identifier("log"), inside[1])
            return _FACTOR, _row(head, _operator("\u2061"), _fenced("(", inside[:1], ")"))
        if name in ("binom", "choose"):
            stack = f'<mfrac linethickness="0">{inside[0]}{inside[1]}</mfrac>'
            return _ATOM, _fenced("(", [stack], ")")
        if name == "mod":
            left, right = (_shown(argument, _FACTOR) for argument in arguments)
            return _PRODUCT, _row(left, _space(), _operator("mod"), _space(), right)
    shown = name.removeprefix("apply ")
    head = _identifier("ln" if shown == "log" else _letter(_FUNCTION_NAMES.get(shown, shown)))
    return _FACTOR, _row(head, _operator("\u2061"), _fenced("(", inside, ")"))


def _big_operator(node: BigOperator) -> Drawn:
    sign = _operator(_BIG_OPERATORS.get(node.name, node.name))
    kind = "sub" if node.name in _INTEGRALS else "under"
    other = "sup" if kind == "sub" else "over"
    lower = None if node.lower is None else _shown(node.lower, _LIST)
    upper = None if node.upper is None else _shown(node.upper, _LIST)
    if lower is not None and upper is not None:
        sign = _element(f"m{kind}{other}", sign, lower, upper)
    elif lower is not None:
        sign = _element(f"m{kind}", sign, lower)
    elif upper is not None:
        sign = _element(f"m{other}", sign, upper)
    return _SUM, _row(sign, _space(), _shown(node.body, _PRODUCT))


def _relation(node: Relation) -> Drawn:
    parts = [_shown(node.operands[0], _SETS)]
    for operator, operand in zip(node.operators, node.operands[1:], strict=True):
        parts += [_operator(_RELATIONS.get(operator, operator)), _shown(operand, _SETS)]
    return _RELATION, _row(*parts)


def _congruence(node: Congruence) -> Drawn:
    modulus = _fenced("(", [_row(_words("mod"), _space(), _shown(node.modulus, _SUM))], ")")
    return _RELATION, _row(_shown(node.residue, _SUM), _space(), modulus)


def _collection(node: Collection) -> Drawn:
    items = [_shown(item, _RELATION) for item in node.items]
    if node.kind == "set":
        return _ATOM, _fenced("{", items, "}")
    if node.kind == "or":
        return _LIST, _row((_space() + _words("or") + _space()).join(items))
    return _LIST, _row(_joined(items))


def _bracketed(node: Bracketed) -> Drawn:
    return _ATOM, _fenced(node.left, [_shown(item, _RELATION) for item in node.items], node.right)


def _set_builder(node: SetBuilder) -> Drawn:
    inside = _row(_shown(node.variable, _RELATION), _operator("∣"), _shown(node.condition, _LIST))
    return _ATOM, _fenced("{", [inside], "}")


def _set_operation(node: SetOperation) -> Drawn:
    operator = _SET_OPERATORS.get(node.operator, node.operator)
    return _SETS, _row(_joined((_shown(operand, _SUM) for operand in node.operands), operator))


def _matrix(node: Matrix) -> Drawn:
    rows = (_element("mtr", *(_element("mtd", _shown(cell, _LIST)) for cell in row)) for row in node.rows)
    return _ATOM, _fenced("(", [_element("mtable", *rows)], ")")


def _text(node: Text) -> Drawn:
    return _ATOM, _words(node.text)


def _quantity(node: Quantity) -> Drawn:
    unit = _words(_UNITS.get(node.unit, node.unit))
    if node.unit in _BEFORE_THE_VALUE:
        return _PRODUCT, _row(unit, _shown(node.value, _FACTOR))
    value = _shown(node.value, _FACTOR)
    return _PRODUCT, _row(value, unit) if node.unit in _AT_THE_VALUE else _row(value, _space(), unit)


def _based_number(node: BasedNumber) -> Drawn:
    return _ATOM, _element("msub", _numeral(node.digits), _numeral(str(node.base)))


def _clock_time(node: ClockTime) -> Drawn:
    minutes, seconds = divmod(node.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return _ATOM, _words(f"{hours}:{minutes:02d}" + (f":{seconds:02d}" if seconds else ""))


def _ratio(node: Ratio) -> Drawn:
    return _SETS, _row(_joined((_shown(term, _SUM) for term in node.terms), ":"))


_DRAWERS: dict[type, Callable[[Any], Drawn]] = {
    Number: _number,
    Symbol: _symbol,
    Constant: _constant,
    Sum: _sum,
    Product: _product,
    Quotient: _quotient,
    Power: _power,
    Negative: _negative,
    PlusMinus: _plus_minus,
    Call: _call,
    BigOperator: _big_operator,
    Relation: _relation,
    Congruence: _congruence,
    Collection: _collection,
    Bracketed: _bracketed,
    SetBuilder: _set_builder,
    SetOperation: _set_operation,
    Matrix: _matrix,
    Text: _text,
    Quantity: _quantity,
    BasedNumber: _based_number,
    ClockTime: _clock_time,
    Ratio: _ratio,
}
