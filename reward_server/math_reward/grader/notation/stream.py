"""The stream of tokens that the parser reads: its position, the next token, and going back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from math_reward.grader.errors import NotMathematics, TooComplex
from math_reward.grader.notation.tokenise import Token
from math_reward.grader.words.units import PLAIN_UNITS

Read = TypeVar("Read")
"""What a rule reads: a node, or several."""

MAX_NESTING = 60

_OPERATORS = ("+", "-", "*", "/", "^", "=", "<", ">", "<=", ">=")
_AND = ("and", "et", "und")

END = Token("end of text", "", False)
START = Token(",", "", False)
"""The token before the first one: an answer may begin like an item of a list."""


class TokenStream:
    """The tokens of one answer and a position among them.

    ``top`` is the token at the position. ``mark`` returns the position and ``reset`` goes back to it. ``replace`` puts
    tokens in the place of the one just read, and goes back to them. ``bar_ends`` counts the open constructs that a "|"
    could end, ``integrals`` the integrals that still have no dx.
    """

    __slots__ = ("_depth", "_position", "_tokens", "bar_ends", "integrals", "top")

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = [*tokens, END]
        self._position = 0
        self._depth = 0
        self.bar_ends = 0
        self.integrals = 0
        self.top = self._tokens[0]

    def mark(self) -> int:
        """The position, which is also how many tokens have been read."""
        return self._position

    def reset(self, mark: int) -> None:
        """Goes back to where ``mark`` was taken."""
        self._position, self.top = mark, self._tokens[mark]

    def replace(self, *tokens: Token) -> None:
        """Puts ``tokens`` in the place of the one just read; the first of them is read next."""
        self._position -= 1
        self._tokens[self._position : self._position + 1] = tokens
        self.top = self._tokens[self._position]

    def rest(self) -> Iterator[Token]:
        """The tokens from here on, the end included."""
        return iter(self._tokens[self._position :])

    def has(self, kind: str) -> bool:
        """Whether the answer has a token of this kind anywhere."""
        return any(token.kind == kind for token in self._tokens)

    def before(self, back: int = 1) -> Token:
        """The token that was read last, or ``back`` - 1 tokens earlier; a comma before the first."""
        return self._tokens[self._position - back] if self._position >= back else START

    def advance(self) -> Token:
        token = self.top
        if token is END:
            raise NotMathematics("it ends too early")
        self._position += 1
        self.top = self._tokens[self._position]
        return token

    def peek(self, ahead: int = 1) -> Token:
        position = self._position + ahead
        return self._tokens[position] if position < len(self._tokens) else END

    def accept(self, kind: str) -> bool:
        if self.top.kind == kind:
            self.advance()
            return True
        return False

    def expect(self, *kinds: str) -> str:
        if self.top.kind not in kinds:
            token = self.top.value or self.top.kind
            raise NotMathematics(f"{' or '.join(kinds)} is missing before {token!r}")
        return self.advance().kind

    def expect_command(self, name: str) -> None:
        if not self.is_command(name):
            raise NotMathematics(f"\\{name} is missing")
        self.advance()

    def is_command(self, *names: str) -> bool:
        return self.top.kind == "command" and self.top.value in names

    def is_word(self, *words: str) -> bool:
        return self.top.kind in ("word", "text") and self.top.value.strip(" ,.;").lower() in words

    def names_a_set(self) -> bool:
        r"""Whether a set follows the word "in": ``k in Z``, ``x in (2, 5]``, and not ``e^{2\pi in/5}``."""
        following = self.peek()
        kinds = ("(", "[", "\\{", "{", "number set", "command")
        return following.kind in kinds or following.value in ("Z", "N", "Q", "R", "C")

    def opens_unit(self) -> bool:
        """Whether a unit in brackets is next: ``(cm)``."""
        is_name = self.top.kind == "(" and self.peek().kind in ("text", "word") and self.peek(2).kind == ")"
        return is_name and self.peek().value.strip().lower() in PLAIN_UNITS

    def multiplies_letters(self, read: int = 0) -> bool:
        r"""Whether a short word is a product of letters, as the "by" of ``\frac{c-by}{a}``: what stands on either side
        is a formula. ``read`` is 1 if the word has been read already.
        """
        word, before, after = self.peek(-read), self.before(1 + read), self.peek(1 - read)
        left = before.kind in _OPERATORS or (before.kind == "number" and not word.spaced)
        right = after.kind in _OPERATORS or (after.kind in ("^", "_", "(", "command") and not after.spaced)
        left_ends = before is START or before.kind in ("{", "(", "[", ",")
        right_ends = after is END or after.kind in ("}", ")", "]", ",")
        in_braces = before.kind == "{" and after.kind == "}" and self._position - read > 1
        return in_braces or (left and (right or right_ends)) or (left_ends and right)

    def at_differential(self) -> bool:
        """Whether the dx of an integral is next."""
        word = self.top.value
        return self.integrals > 0 and self.top.kind == "word" and len(word) in (1, 2) and word[0] == "d"

    def at_separator(self) -> bool:
        return self.top.kind in (",", ";", "&") or self.is_word(*_AND) or self.is_command("land")

    def at_closing(self) -> bool:
        return self.top is END or self.top.kind in (")", "]", "}", "\\}", ".")

    def below(self, rule: Callable[[], Read]) -> Read:
        """What ``rule`` reads one level deeper."""
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise TooComplex(f"it is nested more than {MAX_NESTING} deep")
        read = rule()
        self._depth -= 1
        return read
