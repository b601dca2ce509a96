r"""Parses what a formula is made of: numbers, ``1 1/2``, ``0.\overline{3}``, ``204_5``, clock times, words, and values
with their unit or the things that they count: ``5 \text{ cm}``, ``$12``, ``3 million people``.
"""

from __future__ import annotations

import re
from fractions import Fraction

from math_reward.grader.errors import NotMathematics, Undefined
from math_reward.grader.notation.exact import exact
from math_reward.grader.notation.syntax import (
    BasedNumber,
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
from math_reward.grader.notation.tokens import Grammar, Token
from math_reward.grader.words.number_words import MULTIPLIERS, WORDS, number_in_words
from math_reward.grader.words.units import (
    BEFORE_NUMBERS,
    POWERS,
    UNITS,
    is_thing,
    is_unit,
    measure,
    one_unit,
    unit_name,
)
from math_reward.grader.words.vocabulary import NEGATIONS, PHRASES, QUALIFIERS

CLOCK = re.compile(r"\s*(\d{1,2})(?::([0-5]\d)(?::([0-5]\d))?|(?= ?[AaPp]\.? ?[Mm]))\s*(?:([AaPp])\.?\s*[Mm]\.?\s*)?")
TEXT_COMMAND = re.compile(r"\\(?:text\w*|mbox|hbox|mathrm|mathbf|mathit|emph|operatorname|bold|underline)\s*(?=\{)")
_TWO_LETTERS = re.compile(r"(?<![^\W\d_])(?!(?:and|or)\b)[^\W\d_]{2}")
_ARTICLE = re.compile(rf"^(?:[Aa]n? (?!(?:{'|'.join(WORDS)})\b)|[Tt]he )(?=[A-Za-z]{{2}})")
_TRUTHS = ("yes", "no", "true", "false")
# "Yes, it is", "no, it is not": a clause that says the same; not "yes, no" and not "yes, it is not".
_AFTER_A_TRUTH = re.compile(
    r"(?:no|false)\s?[,;] (?:it|they|he|she|we|there|that|this) [a-z]+(?:n't| not)"
    r"|(?:yes|true)\s?[,;] (?:it|they|he|she|we|there|that|this) (?:is|are|does|do|can|will|was|were|has|have|exists?)"
)
# It begins where white space begins, so that not each space of many searches the others.
_DIVISION = re.compile(r"(?<!\s)\s+(?:[,;]\s*(?:and\s+)?|and\s+)|[,;]\s*(?:and\s+)?")
ORDINALS = ("st", "nd", "rd", "th")
_MEASURED_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_POWER = re.compile(r"\^\{?-?\d{1,2}\}?")
_ALSO_UNITS = ("min", "sec", "in", "rad", "h", "s")
_CURRENCIES = ("\\$", "$", "€", "£", "¥", "₹", "¢")
_RELATION = re.compile(r"^[-^]|[<>=+!~?]")
_TEMPERATURES = {"degree celsius": "celsius", "degree fahrenheit": "fahrenheit", "degree coulomb": "celsius",
                 "degree farad": "fahrenheit"}  # fmt: skip
"""What the names of a degree and its scale name together; C and F alone are coulomb and farad."""


def words(text: str) -> str:
    r"""A normalised text as words: without ``\text{}``, braces, outer brackets and quotation marks, and in lower case
    unless they are single letters.
    """
    text = unwrapped(text)
    text = " ".join(text.replace("\\", "").split()).lstrip(" .,;:'\"").rstrip(" .,;:!?'\"")  # !A is not A.
    if text.startswith("(") and text.endswith(")"):
        text = text[1:-1].strip()
    text = _ARTICLE.sub("", text)
    return text.lower() if _TWO_LETTERS.search(text) else text


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


def value_of(node: Node) -> Fraction | None:
    """The rational value of a factor or a power; None where it has none, which the comparison will say: 1/0 hours."""
    try:
        return exact(node)
    except Undefined:
        return None


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


class NumberParser(Grammar):
    """Reads numbers."""

    __slots__ = ()

    def _number(self) -> Node:
        token = self.advance()
        number = number_literal(token.value)
        following = self.top
        if following.kind == "word" and not following.spaced and following.value in ORDINALS:
            self.advance()
            return number
        if following.kind == "command" and following.value in ("overline", "bar", "dot") and "." in token.value:
            self.advance()
            repeating = self._raw_digits()
            return repeating_decimal(token.value, repeating)
        if number.places is not None:
            return number
        if following.kind == "command" and following.value == "frac":
            start = self.mark()
            fraction = proper_fraction(self._command())
            if fraction is not None:
                return Number(number.value + fraction)
            self.reset(start)
        elif (
            following.kind == "number"
            and following.spaced
            and self.peek().kind == "/"
            and self.peek(2).kind == "number"
            and all(part.value.isdigit() for part in (following, self.peek(2)))
        ):
            numerator, denominator = int(following.value), int(self.peek(2).value)
            if 0 < numerator < denominator:
                for _ in range(3):
                    self.advance()
                return Number(number.value + Fraction(numerator, denominator))
        return number

    def _based(self, number: Number) -> Node:
        base = self._argument()
        if (
            isinstance(base, Number)
            and base.value.denominator == 1
            and 2 <= base.value <= 36
            and (number.places or number.value.denominator == 1)
        ):
            digits = f"{float(number.value):.{number.places}f}" if number.places else str(number.value)
            if all(digit == "." or int(digit) < base.value for digit in digits):
                return BasedNumber(digits, int(base.value))
        raise NotMathematics("a number has an index that is no base")

    def _raw_digits(self) -> str:
        braced = self.accept("{")
        if self.top.kind != "number" or not self.top.value.isdigit():
            raise NotMathematics("what repeats is no digits")
        digits = self.advance().value
        if braced:
            self.expect("}")
        return digits


class MeasureParser(Grammar):
    """Reads values with units."""

    __slots__ = ()

    def _measured(self) -> Node:
        """A value, with its unit if it has one."""
        if self.top.kind in _CURRENCIES or self._is_currency():
            token = self.advance()
            unit = one_unit(
                token.value.strip(" .") if token.kind in ("text", "word") else token.kind.removeprefix("\\")
            )
            self.accept(".")
            value = Quantity(self._times_a_million(self._ratio()), unit)
            if self.top.kind in ("text", "word") and UNITS.get(self.top.value.strip().lower()) == unit:
                self.advance()
            return value
        start = self.top
        node = self._ratio()
        if self.top.kind in _CURRENCIES:
            return Quantity(node, UNITS[self.advance().kind.removeprefix("\\")])
        if start.kind == "text" and self.mark() == 1:
            return node
        node = self._times_a_million(node)
        named = self._unit() or self._letters_of_a_unit(node)
        if named is None:
            return node
        if not isinstance(node, Quantity) and (smaller := self._smaller_part(node, named)) is not None:
            return smaller
        if isinstance(node, Quantity):
            if node.unit == named:
                return node
            return Quantity(node.value, f"{node.unit} {named}")
        return Quantity(node, named)

    def _is_currency(self) -> bool:
        """Whether the name of a currency and its amount are next."""
        token = self.top
        named = token.kind in ("text", "word") and token.value.strip(" .").lower() in BEFORE_NUMBERS
        return named and "number" in (self.peek().kind, self.peek(2).kind if self.peek().kind == "." else "")

    def _times_a_million(self, node: Node) -> Node:
        """``node`` times the number words that follow it: 5 million, 3 hundred thousand."""
        while self.top.kind in ("text", "word"):
            first, _, rest = self.top.value.strip().partition(" ")
            factor = MULTIPLIERS.get(first.lower())
            if factor is None:
                break
            token = self.advance()
            if rest.strip():
                self.replace(Token(token.kind, rest, True))
            value = value_of(node)
            node = Product((node, Number(Fraction(factor)))) if value is None else Number(value * factor)
        return node

    def _unit(self) -> str | None:
        parts: list[str] = []
        while True:
            if self.top.kind not in ("text", "word"):
                if parts and self._multiplies_a_unit():
                    self.advance()
                    continue
                if not parts and self.opens_unit():  # 7 (cm)
                    self.advance()
                    parts.append(unit_name(self.advance().value.strip()))
                    self.advance()
                break
            raw = self.top.value.strip(" .,;()")
            if raw.lower() in POWERS and self.peek().kind in ("text", "word"):
                self.advance()
                raw = f"{raw} {self.top.value.strip(' .,;()')}"
            words = _MEASURED_WORD.findall(raw.lower())
            if self.is_word("and", "or") or (raw == "in" and self.names_a_set()):
                break
            if not raw:
                self.advance()
                continue
            if words and words[0] in QUALIFIERS and words[0] != "per":
                break
            if raw in ("th", "st", "nd", "rd"):
                self.advance()
                continue
            one_letter = len(raw) == 1 and raw.isascii()
            says_more = (
                any(c.isdigit() for c in _POWER.sub("", raw))
                or bool(NEGATIONS.intersection(words))
                or _RELATION.search(raw) is not None
            )
            if says_more or (measure(unit_name(raw)) is None and (one_letter or not is_thing(words))):
                raise NotMathematics("the words after the number say more than a unit")
            unit = unit_name(raw)
            self.advance()
            if self.top.kind == "^":
                self.advance()
                exponent = value_of(self._argument(exponent=True))
                if exponent is None:
                    raise NotMathematics("the power of a unit is no number")
                unit += f"^{exponent}"
            parts.append(unit)
            if self.top.kind == "/" and self.peek().kind in ("text", "word"):
                self.advance()
                parts.append("/")
        if not parts:
            return None
        if not is_thing(" ".join(parts).split()):
            raise NotMathematics("the words after the number say more than a unit")
        unit = " ".join(parts).replace(" / ", "/").replace(" per ", "/")
        return _TEMPERATURES.get(unit, unit)

    def _letters_of_a_unit(self, before: Node) -> str | None:
        """The unit of ``120 min``: a word with another meaning too is a unit after a number, at the end."""
        if not isinstance(before, Number) or self.top.kind != "word" or self.top.value not in _ALSO_UNITS:
            return None
        following = self.peek()
        if following.kind not in ("end of text", ",", ";", ".", ")", "\\}", "}"):
            return None
        return unit_name(self.advance().value)

    def _smaller_part(self, value: Node, unit: str) -> Node | None:
        """``1 hour 30 minutes`` and ``3 feet 6 inches``, in the smaller unit; None where no such part follows."""
        size = measure(unit)
        whole = value_of(value)
        if size is None or whole is None or whole < 0:
            return None
        start = self.mark()
        if self.is_word("and") or self.top.kind == ",":
            self.advance()
        if self.top.kind == "number":
            count = self.advance().value
            try:
                other = self._unit() or self._letters_of_a_unit(Number(Fraction(0)))
            except NotMathematics:
                other = None
            smaller = measure(other) if other else None
            same_kind = smaller is not None and smaller.dimension == size.dimension
            if other and smaller and same_kind and Fraction(count) * smaller.size < size.size:
                return Quantity(Number(whole * size.size / smaller.size + Fraction(count)), other)
        self.reset(start)
        return None

    def _multiplies_a_unit(self) -> bool:
        following = self.peek()
        times = self.top.kind == "*" or self.is_command("cdot", "times")
        return times and following.kind in ("text", "word") and is_unit(following.value.strip())
