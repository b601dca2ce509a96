r"""Parses numbers: ``1 1/2``, ``0.\overline{3}``, ``204_5``, ``2nd``."""

from __future__ import annotations

from fractions import Fraction

from math_reward.grader.errors import NotMathematics
from math_reward.grader.notation.grammar import Grammar
from math_reward.grader.notation.literals import number_literal, proper_fraction, repeating_decimal
from math_reward.grader.notation.syntax import BasedNumber, Node, Number

ORDINALS = ("st", "nd", "rd", "th")


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
            and number.places is None
            and number.value.denominator == 1
        ):
            digits = str(number.value)
            if all(int(digit) < base.value for digit in digits):
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
