r"""A value that the brackets behind it say again: "five (5)", "12 (a dozen) eggs", "3/8 (or 37.5%)", "1/2 (0.5)"."""

from __future__ import annotations

import re
from fractions import Fraction

from math_reward.grader.errors import NotMathematics, TooComplex, Undefined
from math_reward.grader.mathematics.undone import undone
from math_reward.grader.notation.exact import exact
from math_reward.grader.notation.parse import parse
from math_reward.grader.notation.syntax import Negative, Node, Number, Quantity, Quotient, symbols
from math_reward.grader.rules import RULES
from math_reward.grader.rules.comparison import Comparison
from math_reward.grader.rules.labels import Contradiction
from math_reward.grader.verdict import Options
from math_reward.grader.words.number_words import MAX_WORDS, MULTIPLIERS, number_in_words

MAX_CHARACTERS = 200
_OPEN = re.compile(r"(?P<space>[\s~]|\\[ ,;:!]|\\q?quad(?![a-z]))*(?:\\text\w*\s?\{\s*)?[(（]")
_INSIDE = re.compile(r"[^()（）;]{1,60}")
_CLOSE = re.compile(r"[)）](?:\s*\})?")
_THAT_IS = re.compile(
    r"\A(?:i\.\s?e\.,?|that is,?|which is|namely|equivalently,?|exactly|or|=)?\s*"
    r"(?:\\approx|≈|approx\.|(?:approximately|about|roughly)\s)?\s*"
)
_DIVISION = re.compile(r"[,;] |[(（]|\\\{|\s(?:and|or)\s|\\(?:text|mathrm)\s?\{\s*(?:and|or)\s*\}")
_LABEL = re.compile(r"\A\s*\$?[a-zA-Z]\w{0,3}\s*=")
_TEXT = re.compile(r"\\(?:text|mathrm)\w*\s?\{([^{}]*)\}")
_SIGN = re.compile(r"\A(?:minus|negative)\s(?=\d)")
_UNIT = re.compile(r"(?:\s*\$)?(?:\s+[^\W\d_]|\\text|\^\s?\{?\\circ|°|[.\s]*(?:[,;)）]|\\\}|\Z))")
_END = re.compile(r"(?:\s*\$)?(?:\s*\\text|[.\s]*(?:[,;]|(?:[)）]|\\\})\Z|\Z|\s(?:and|or)\s))")
_ALONE = re.compile(
    r"(?:.*(?:[,;]|\s(?:and|or)|\{\s*(?:and|or)\s*\}))?\s*\$?\s*(?:[a-zA-Z]\w{0,3}\s*=\s*)?|[(（]|\\\{"
)
"""What may stand before a value that is no part of a calculation: nothing, a label, the items of a list."""
_CALCULATES = re.compile(r"(?<=[^\s$({])\s*[-+*=<>|!^]|\\(?:cdot|times|div|pm|sum|int|prod)(?![a-z])")
"""A sum or a product may have a factor in brackets behind it."""


def said_once(text: str) -> str:
    """An answer as it was written, without brackets that say the value before them again.

    Number words and words such as "or" make no factor. Behind a space, and where no calculation is around, nor do a
    unit, a percent sign, a decimal behind a fraction or a fraction behind a decimal. "5 (5)" stays a product.
    """
    if len(text) > MAX_CHARACTERS or not ("(" in text or "（" in text):
        return text
    kept, done = "", 0
    for opened in _OPEN.finditer(text):
        inside = _INSIDE.match(text, opened.end())
        closed = _CLOSE.match(text, inside.end()) if inside else None
        if inside is None or closed is None or opened.start() < done or not _UNIT.match(text, closed.end()):
            continue
        before = kept + text[done : opened.start()]
        value = _LABEL.sub("", _DIVISION.split(before)[-1])
        stands_alone = _ALONE.fullmatch(before.removesuffix(value)) and _END.match(text, closed.end())
        is_apart = opened["space"] is not None and stands_alone is not None
        if value.strip() and (said := _said(value, inside[0], is_apart=is_apart)) is not None:
            kept, done = before.removesuffix(value) + said, closed.end()
    return kept + text[done:]


def _said(value: str, again: str, *, is_apart: bool) -> str | None:
    """A value, in digits, that brackets say again and that they cannot be a factor of; else None."""
    again = _TEXT.sub(r"\1", again).strip()
    if again.count("}") > again.count("{"):
        again = again.replace("}", "", 1)  # \text{ (or } 2.5)
    lead = _THAT_IS.match(again)
    behind = "" if lead is None else lead[0].strip()
    again = again[len(lead[0]) if lead else 0 :]
    try:
        left, right = _Side(value), _Side(again)
        if not (behind or left.is_words or right.is_words):
            is_other_form = (left.is_decimal and right.is_fraction) or (left.is_fraction and right.is_decimal)
            if not (is_apart and (left.is_quantity or right.is_quantity or is_other_form)):
                return None
            if _CALCULATES.search(value) or symbols(left.node) or symbols(right.node):
                return None
        if not _same(left.node, right.node, is_rounded=behind not in ("", "or", "=")):
            return None
        return value if left.digits is None else left.digits
    except (NotMathematics, TooComplex, Undefined, Contradiction):
        return None


class _Side:
    """A value or what the brackets say, read. Raises NotMathematics or TooComplex."""

    def __init__(self, text: str) -> None:
        text = _TEXT.sub(r"\1", text)
        words, self.digits = text.split(), None
        for count in range(min(len(words), MAX_WORDS), 0, -1):
            if (number := number_in_words(" ".join(words[:count]).lower())) is not None:
                self.digits = " ".join([str(number), *words[count:]])  # 18 dollars
                break
        self.node: Node = parse(self.digits or text)
        is_word = isinstance(self.node, Number) and not any(map(str.isdigit, text))  # 五
        is_word |= _SIGN.match(text) is not None or not MULTIPLIERS.keys().isdisjoint(words)  # 2.5 million
        self.is_words = self.digits is not None or is_word
        self.is_quantity = isinstance(self.node, Quantity)
        bare = self.node.operand if isinstance(self.node, Negative) else self.node
        self.is_decimal = isinstance(bare, Number) and bare.places is not None
        is_mixed = isinstance(bare, Number) and bare.places is None and bare.value.denominator > 1
        self.is_fraction = is_mixed or (isinstance(bare, Quotient) and exact(bare) is not None)


def _same(left: Node, right: Node, *, is_rounded: bool) -> bool:
    values = [exact(left), exact(right)]
    if values[0] is not None and values[1] is not None:
        places = max(map(_places, (left, right)))
        is_near = abs(values[0] - values[1]) * 10**places <= Fraction(1, 2)
        return values[0] == values[1] or (places > 1 and is_near and (is_rounded or not _is_percent(left, right)))
    if _is_percent(left, right):
        return False
    if undone(left) or undone(right):
        return False  # An integral would be calculated twice.
    comparison = Comparison(Options(), RULES)
    return comparison.same(left, right) or comparison.same(right, left)


def _places(node: Node) -> int:
    if isinstance(node, Negative):
        return _places(node.operand)
    if isinstance(node, Quantity):
        return 2 + _places(node.value)
    return (node.places or 0) if isinstance(node, Number) else 0


def _is_percent(*nodes: Node) -> bool:
    return any(isinstance(node, Quantity) and node.unit == "percent" for node in nodes)
