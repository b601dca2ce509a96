"""Makes the leaves of a tree (numbers, clock times, words), and joins signs and factors."""

from __future__ import annotations

import re
from fractions import Fraction

from math_reward.grader.notation.syntax import (
    ClockTime,
    Collection,
    Congruence,
    Constant,
    Negative,
    Node,
    Number,
    Product,
    Quantity,
    Quotient,
    Ratio,
    Symbol,
    Text,
)
from math_reward.grader.words.number_words import WORDS, number_in_words
from math_reward.grader.words.vocabulary import PHRASES

CLOCK = re.compile(r"\s*(\d{1,2})(?::([0-5]\d)(?::([0-5]\d))?|(?= ?[AaPp]\.? ?[Mm]))\s*(?:([AaPp])\.?\s*[Mm]\.?)?\s*")
TEXT_COMMAND = re.compile(r"\\(?:text\w*|mbox|hbox|mathrm|mathbf|mathit|emph|operatorname|bold|underline)\s*(?=\{)")
_WORD = re.compile(r"(?<![^\W\d_])(?!(?:and|or)\b)[^\W\d_]{2}")
_ARTICLE = re.compile(rf"^(?:[Aa]n? (?!(?:{'|'.join(WORDS)})\b)|[Tt]he )(?=[A-Za-z]{{2}})")
_TRUTHS = ("yes", "no", "true", "false")
# "Yes, it is", "no, it is not": a clause that says the same; not "yes, no" and not "yes, it is not".
_AFTER_A_TRUTH = re.compile(
    r"(?:no|false)\s?[,;] (?:it|they|he|she|we|there|that|this) [a-z]+(?:n't| not)"
    r"|(?:yes|true)\s?[,;] (?:it|they|he|she|we|there|that|this) (?:is|are|does|do|can|will|was|were|has|have|exists?)"
)
_DIVISION = re.compile(r"\s*[,;]\s*(?:and\s+)?|\s+and\s+")


def words(text: str) -> str:
    r"""A normalised text as words: without ``\text{}``, braces, outer brackets and quotation marks, and in lower case
    unless they are single letters.
    """
    text = unwrapped(text)
    text = " ".join(text.replace("\\", "").split()).lstrip(" .,;:'\"").rstrip(" .,;:!?'\"")  # !A is not A.
    if text.startswith("(") and text.endswith(")"):
        text = text[1:-1].strip()
    text = _ARTICLE.sub("", text)
    return text.lower() if _WORD.search(text) else text


def unwrapped(text: str) -> str:
    return TEXT_COMMAND.sub("", text).replace("{", "").replace("}", "")


def spoken(plain: str) -> Node:
    """Words as a ``Text``, or as a list of them where commas or "and" divide them."""
    parts = [part for part in _DIVISION.split(plain) if part]
    if len(parts) > 1 and number_in_words(plain) is not None:  # one hundred and five
        return _letters(plain)
    if len(parts) > 1 and parts[0] in _TRUTHS and _AFTER_A_TRUTH.fullmatch(plain):
        return Text(parts[0])
    if len(parts) > 1:
        return Collection("list", tuple(_letters(part) for part in parts))
    return _letters(plain)


def _letters(text: str) -> Node:
    value = number_in_words(text)
    if value is not None:
        return Number(value)
    for name, phrases in PHRASES.items():
        if text in phrases:
            return Text(name) if name == "undefined" else Constant(name)
    return Symbol(text) if len(text) == 1 and text.isalpha() else Text(text)


def clock_time(match: re.Match[str]) -> Node:
    hours, minutes, seconds, half = match.groups()
    hour = int(hours)
    ratio = None
    if half:
        hour = hour % 12 + (12 if half in "pP" else 0)
    elif seconds is None and hour and int(minutes):
        ratio = Ratio((Number(Fraction(hour)), Number(Fraction(int(minutes)))))
    return ClockTime(hour * 3600 + int(minutes or 0) * 60 + int(seconds or 0), ratio, half is not None)


def number_literal(literal: str) -> Number:
    if literal.isdigit():
        return Number(Fraction(int(literal)))
    mantissa, _, exponent = literal.lower().partition("e")
    if "." not in mantissa:
        return Number(Fraction(literal))
    whole, _, decimals = mantissa.partition(".")
    if not decimals:
        return Number(Fraction(literal))
    places = len(decimals) - int(exponent or 0)
    return Number(Fraction(literal), places, len((whole + decimals).lstrip("0")))


def repeating_decimal(literal: str, repeating: str) -> Number:
    """The number 0.8444... for ``0.8`` and ``4``."""
    shift = len(literal.partition(".")[2])
    return Number(Fraction(literal) + Fraction(int(repeating), (10 ** len(repeating) - 1) * 10**shift))


def proper_fraction(node: Node) -> Fraction | None:
    """The value of a fraction of two integers if it is between 0 and 1, as in a mixed number; else None."""
    if not isinstance(node, Quotient):
        return None
    above, below = node.numerator, node.denominator
    if not isinstance(above, Number) or not isinstance(below, Number):
        return None
    if above.places is not None or below.places is not None or not 0 < above.value < below.value:
        return None
    return above.value / below.value


def negated(node: Node) -> Node:
    """``node`` with a minus; a unit and a modulus belong to the whole."""
    if isinstance(node, Quantity):
        return Quantity(Negative(node.value), node.unit)
    if isinstance(node, Congruence):
        return Congruence(Negative(node.residue), node.modulus)
    return Negative(node)


def product_of(factors: list[Node]) -> Node:
    if len(factors) == 1:
        return factors[0]
    last = factors[-1]
    if isinstance(last, Quantity) and last.unit in ("degree", "percent") and len(factors) == 2:
        return Quantity(Product((factors[0], last.value)), last.unit)
    return Product(tuple(factors))
