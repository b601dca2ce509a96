"""Parses a value with its unit or the things that it counts: ``5 \\text{ cm}``, ``$12``, ``3 million people``."""

from __future__ import annotations

import re
from fractions import Fraction

from math_reward.grader.errors import NotMathematics
from math_reward.grader.notation.exact import exact
from math_reward.grader.notation.grammar import Grammar
from math_reward.grader.notation.syntax import Node, Number, Product, Quantity
from math_reward.grader.notation.tokenise import Token
from math_reward.grader.words.number_words import MULTIPLIERS
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
from math_reward.grader.words.vocabulary import NEGATIONS, QUALIFIERS

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_POWER = re.compile(r"\^\{?-?\d{1,2}\}?")
_ALSO_UNITS = ("min", "sec", "in", "rad", "h", "s")
_CURRENCIES = ("\\$", "$", "€", "£", "¥", "₹", "¢")
_RELATION = re.compile(r"^[-^]|[<>=+!~?]")
_TEMPERATURES = {"degree celsius": "celsius", "degree fahrenheit": "fahrenheit", "degree coulomb": "celsius",
                 "degree farad": "fahrenheit"}  # fmt: skip
"""What the names of a degree and its scale name together; C and F alone are coulomb and farad."""


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
            value = exact(node)
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
            words = _WORD.findall(raw.lower())
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
                exponent = exact(self._argument(exponent=True))
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
        whole = exact(value)
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
