r"""Whether a correct answer only repeats what the prompt asks for: ``8 \cdot 7`` where it says "Compute 7 * 8".

Trees are compared and not texts, so that order, notation, a label and a neutral element hide nothing.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Hashable, Iterator
from fractions import Fraction

from math_reward.grader.errors import NotMathematics, TooComplex, Undefined
from math_reward.grader.mathematics.matrices import calculated
from math_reward.grader.mathematics.undone import is_operation, result
from math_reward.grader.notation.exact import exact
from math_reward.grader.notation.normalise import normalise
from math_reward.grader.notation.parse import parse
from math_reward.grader.notation.syntax import (
    Applied,
    BigOperator,
    Call,
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
    substituted,
    walk,
)
from math_reward.grader.reading import Answer, Reference

PROMPT_CHARACTERS = 20_000
"""How much of a prompt's end is searched for the answer."""
MAX_FORMULAS = 24
FORMULA_CHARACTERS = 300
MAX_TERMS = 64
"""A sum with more terms is not written out."""

_E_NOTATION = re.compile(r"-?\d(?:\.\d{1,20})?[eE][+-]?\d{1,3}")
_WHITE = re.compile(r"\s+")
_OPERATORS = tuple("=<>+-*/^_([{\\,0123456789.")
_FORMULA = re.compile(r"\$\$?([^$]{1,300})\$\$?|\\\((.{1,300}?)\\\)|\\\[(.{1,300}?)\\\]", re.DOTALL)
_PLAIN = (
    re.compile(r"(?<![\w.\\])[-(√\d](?:[\d\s+*/×÷·^().,!%√-]{0,60}[\d)!%])?(?!\w)"),  # 7 * 8
    re.compile(r"(?<![\w.\\])[\w^+*/()-]{1,60}[+*/^-][\w^+*/()-]{1,60}"),  # (x+1)^2
    re.compile(r"(?<![\w.\\])\d[\d.,]{0,20}\s?[a-z]{2,12}\b"),  # 3 feet
)
_WORDS = {" times ": " * ", " multiplied by ": " * ", " plus ": " + ", " minus ": " - ", " divided by ": " / "}
_OPERATION_IN_WORDS = {
    "mod": re.compile(r"\bremainder|\bmod\b|余数|divided by", re.IGNORECASE),
    "gcd": re.compile(r"\bgreatest common|\bgcd\b|\bhcf\b|highest common|最大公", re.IGNORECASE),
    "lcm": re.compile(r"\bleast common|\blcm\b|lowest common|最小公倍", re.IGNORECASE),
}
# "Evaluate $5!$.": an instruction to calculate a formula.
_CALCULATE = re.compile(
    r"(?:\b(?:evaluate|compute|calculate|simplify|work out|what(?: i|')s|how much is|(?:find|determine"
    r"|give) the value of)"
    r"(?: the)?(?: (?:exact )?(?:value|sum|product|difference|quotient|result)(?: of)?)?|计算|求)[:：]?\s?"
    r"(?=\$|\\[(\[]|[\d(−-])",
    re.IGNORECASE,
)
_ANOTHER_FORM = re.compile(
    r"\bconvert|\b(?:as|in|into|to) (?:an? |its )?(?:\w+ )?(?:fraction|decimal|percent|percentage|mixed number|radian|"
    r"degree|scientific notation|standard form|binary|base|ratio|inche|feet|foot|yard|mile|metre|meter|centimeter|"
    r"centimetre|kilometer|kilometre|gram|kilogram|second|minute|hour|cent|dollar)e?s?\b"
    r"|弧度|角度|小数|分数|百分数|换算|十进制|二进制",
    re.IGNORECASE,
)
_TEN = Number(Fraction(10))


def restates(answer: Answer, reference: Reference, prompt: str) -> bool:
    """Whether a correct answer copies an operation from the prompt that the reference does not have."""
    text, prompt = _WHITE.sub("", answer.normal), prompt[-PROMPT_CHARACTERS:]
    if (len(text) < 3 and "!" not in text) or text == _WHITE.sub("", reference.normal) or _E_NOTATION.fullmatch(text):
        return False
    try:
        tree, expected = result(answer.reading.tree), result(reference.reading.tree)
        said, asked = _form(tree), _form(expected)
        if said == asked:
            return False
        if _leaves_arithmetic(tree) and not _leaves_arithmetic(expected) and _CALCULATE.search(prompt):
            value = exact(expected.value if isinstance(expected, Quantity) else expected)
            if any(_value(formula) == value for formula in _formulas(prompt)):
                return True
        if isinstance(expected, Quantity) and isinstance(tree, (Number, Negative)) and said == _form(expected.value):
            return False  # 150 for "in dollars" lacks a unit only.
        # Only a form that the prompt asks for can be missing, and not one that it gave.
        another = _ANOTHER_FORM.search(prompt) and all(asked != _form(formula) for formula in _formulas(prompt))
        if not is_operation(tree) and not another:
            return False
        if isinstance(tree, Call) and (in_words := _OPERATION_IN_WORDS.get(tree.function)) is not None:
            return in_words.search(prompt) is not None
        return _stands_in(text, prompt) or any(said == _form(formula) for formula in _formulas(prompt))
    except (NotMathematics, TooComplex, Undefined):
        return False


def _leaves_arithmetic(node: Node) -> bool:
    """Whether it is rational and has a sum, a product, a power or a function to calculate: 5 · 4 · 3, 17 mod 5. A
    fraction, a decimal, a percentage and 6 · 10^23 have not.
    """
    node = node.value if isinstance(node, Quantity) else node
    if isinstance(node, Power):
        return False  # 2^{10} is how people write it.
    if isinstance(node, Product) and len(node.factors) == 2 and isinstance(node.factors[0], Number):
        power = node.factors[1]
        if isinstance(power, Power) and power.base == _TEN:
            return False
    return exact(node) is not None and any(isinstance(part, (Sum, Product, Power, Call)) for part in walk(node))


def _value(formula: Node) -> Fraction | None:
    """The value of a formula that is no number alone; None for a number, and for what has no rational value."""
    return None if isinstance(formula, (Number, Negative)) else exact(calculated(formula))


def _stands_in(text: str, prompt: str) -> bool:
    """Whether the prompt has the text, and not as a part of a longer formula."""
    question = _WHITE.sub("", normalise(prompt))
    places = [copy.start() for copy in itertools.islice(re.finditer(re.escape(text), question), 20)]
    return any(
        question[place - 1 : place] not in _OPERATORS and question[place + len(text) :][:1] not in _OPERATORS
        for place in places
    )


def _formulas(prompt: str) -> Iterator[Node]:
    """The formulas of a prompt, and both sides of its equations."""
    plain = _FORMULA.sub(" ; ", prompt)
    for word, sign in _WORDS.items():
        plain = plain.replace(word, sign)
    marked = (next(filter(None, match.groups())) for match in _FORMULA.finditer(prompt))
    unmarked = (match[0] for pattern in _PLAIN for match in pattern.finditer(plain))
    for formula in itertools.islice(itertools.chain(marked, unmarked), MAX_FORMULAS):
        formula = formula.strip().rstrip(".,;:?")
        if not 1 < len(formula) <= FORMULA_CHARACTERS:
            continue
        try:
            tree = parse(formula)
        except (NotMathematics, TooComplex, Undefined):
            continue
        yield tree
        if isinstance(tree, Relation):
            yield from tree.operands


def _form(node: Node) -> Hashable:
    """A tree without what is only notation: order, brackets, one as a factor, nought as a term, the sign of a root."""
    match node:
        case Number():
            return node.value
        case Quantity(value=value, unit=unit) if unit not in ("percent", "degree"):
            return ("quantity", _form(value), unit)
        case Sum() | Negative():
            terms = sorted(_terms(node, 1), key=repr)
            return terms[0][1] if len(terms) == 1 and terms[0][0] > 0 else ("sum", *terms)
        case Product() | Quotient():
            sign, factors = _factors(node)
            form = factors[0] if len(factors) == 1 else ("product", *sorted(factors, key=repr))
            return form if sign > 0 else ("sum", (-1, form))
        case Power(exponent=Number(value=Fraction(numerator=1, denominator=1))):
            return _form(node.base)
        case Power():
            return ("power", _form(node.base), _form(node.exponent))
        case Call(function="sqrt"):
            return ("power", _form(node.arguments[0]), ("over", Fraction(2)))
        case Call():
            return (node.function, *map(_form, node.arguments))
        case Applied():
            return ("applied", node.name, node.is_inverse, *map(_form, node.arguments))
        case BigOperator():
            written = _written_out(node)
            return repr(node) if written is None else _form(written)
    return repr(node)


def _terms(node: Node, sign: int) -> list[tuple[int, Hashable]]:
    if isinstance(node, Negative):
        return _terms(node.operand, -sign)
    if isinstance(node, Sum):
        return [term for part in node.terms for term in _terms(part, sign)]
    if isinstance(node, Product):
        own, factors = _factors(node)
        form = factors[0] if len(factors) == 1 else ("product", *sorted(factors, key=repr))
        return [(sign * own, form)]
    return [] if node == Number(Fraction(0)) else [(sign, _form(node))]


def _factors(node: Node) -> tuple[int, list[Hashable]]:
    """The sign and the factors of a product; a factor below a fraction's line is marked."""
    if isinstance(node, Negative):
        sign, factors = _factors(node.operand)
        return -sign, factors
    if isinstance(node, Product):
        signs, lists = zip(*map(_factors, node.factors), strict=True)
        factors = [factor for part in lists for factor in part if factor != 1]
        return (-1) ** sum(sign < 0 for sign in signs), factors or [Fraction(1)]
    if isinstance(node, Quotient):
        sign, above = _factors(node.numerator)
        other, below = _factors(node.denominator)
        return sign * other, [f for f in above if f != 1] + [("over", factor) for factor in below if factor != 1]
    return 1, [_form(node)]


def _written_out(node: BigOperator) -> Node | None:
    r"""``1 + 2 + 3`` for ``\sum_{k=1}^3 k``; None if the bounds are not a few whole numbers."""
    lower, upper = node.lower, node.upper
    if node.name not in ("sum", "prod") or not isinstance(lower, Relation) or upper is None:
        return None
    variable, first, last = lower.operands[0], exact(lower.operands[-1]), exact(upper)
    if not isinstance(variable, Symbol) or first is None or last is None or first.denominator != 1:
        return None
    if not 0 < last - first < MAX_TERMS:
        return None
    numbers = range(int(first), int(last) + 1)
    parts = tuple(substituted(node.body, {variable.name: Number(Fraction(number))}) for number in numbers)
    return Sum(parts) if node.name == "sum" else Product(parts)
