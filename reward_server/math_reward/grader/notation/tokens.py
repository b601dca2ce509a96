r"""Cuts a normalised text into tokens (numbers, words, LaTeX commands, ``\text{...}`` and signs), the stream of tokens
that the parser reads, and the grammar: its rules, loosest binding first, which the files beside this one read.

answer    = list { "or" list }
list      = relation { ("," | ";" | "and") relation }
relation  = measured { ("=" | "<" | ...) measured }
measured  = ratio [ unit ]
ratio     = sets { ":" sets }
sets      = sum { (union | intersection | difference) sum }
sum       = [ sign ] product { ("+" | "-" | pm) product }
product   = power { [ "*" | "/" ] power }
power     = primary { "^" argument | "!" | "%" | ... }
primary   = number | word | command | group
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from math_reward.grader.errors import NotMathematics, TooComplex
from math_reward.grader.notation.syntax import Node
from math_reward.grader.words.units import PLAIN_UNITS

MAX_TOKENS = 400
MAX_DIGITS = 400
"""The longest run of digits in a number."""
MAX_EXPONENT = 400
"""The largest power of ten in scientific notation."""


class Token(NamedTuple):
    kind: str
    """``number``, ``word``, ``command``, ``text``, ``number set``, ``begin``, ``end``, ``row`` or the sign itself."""
    value: str
    spaced: bool
    """True if white space is before it."""


_TOKEN = re.compile(
    r"""
    (?P<space>\s*)(?:
      (?P<number>
          \d{1,3}(?:\{,\}\d{3})+(?:\.\d+)?(?!\d)         # 14{,}916
        | \d{1,3}(?:[ ]\d{3})+(?:\.\d+)?(?![\d.])        # 1 000
        | (?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+(?![a-zA-Z\d]))?
      )
    | \\begin\s*\{(?P<begin>[a-zA-Z]+\*?)\}(?:\s*\{[lcr|@{}\s]*\}(?=[^}]))?
    | \\end\s*\{(?P<end>[a-zA-Z]+\*?)\}
    | (?P<row>\\\\)
    | \\(?P<command>[a-zA-Z]+)
    | \\(?P<escaped>[{}$%&_\#|])
    | (?P<word>[a-zA-Z]+)
    | (?P<sign>\*\*|<=|>=|!=|==|~=|:=|->|[-+*/^_=<>(){}\[\]|,;:!%&'"$€£¥₹¢.?])
    | (?P<finish>\Z)
    )""",
    re.VERBOSE,
)
_THOUSANDS = re.compile(r"(?!0)\d{1,3}(?:,\d{3})+(?!\d|,\d)(?:\.\d+)?")

_FORMULA_INSIDE = re.compile(r"\\(?:frac|sqrt|pi|infty|times|cdot|circ|pm)(?![a-zA-Z])")
_BOLD = ("mathbf", "boldsymbol", "bm", "bold", "mathcal", "mathfrak", "mathscr")
_HEXADECIMAL = re.compile(r"\s*[0-9A-F]{2,}\s*")
_JOINT = re.compile(r"\s*([^\s,][^,]{0,80}?)\s+(and|or)\s*$")
# Numbers and signs; a comma, a full stop or brackets with nothing in them are layout.
_SIGNS_ALONE = re.compile(r"(?=.*[-+*/^<>=!%$€£¥₹¢\d]|.*\.\.)(?:[^a-zA-Z\\\u0080-\uffff]|\\[$%])+", re.DOTALL)

_ARGUMENTS = ("frac", "sqrt", "^")
_SYMBOLS = {"mu": "µ", "Omega": "Ω"}
_IN_A_UNIT = re.compile(r"\\(mu|Omega)(?![a-zA-Z]) ?")
# The argument of these commands is words, or letters in another font.
_WORDS = {
    "text", "textbf", "textit", "textrm", "textsf", "texttt", "textnormal", "mbox", "hbox",
    "mathrm", "mathbf", "mathit", "mathsf", "mathtt", "mathcal", "mathscr", "mathfrak", "mathbb",
    "operatorname", "emph", "bold", "bm", "underline",
}  # fmt: skip


def tokenise(text: str, *, thousands: bool = True) -> list[Token]:
    """The tokens of a normalised text.

    Args:
        thousands: ``1,200`` outside brackets or in a fraction is one number; else, and without this, it is a list.

    Raises:
        TooComplex: too many tokens or digits.
        NotMathematics: a character that no answer has, or a brace that is never closed.
    """
    tokens: list[Token] = []
    position, end, gap = 0, len(text), False
    groups: list[str] = []
    """What each open bracket holds: the argument of ``frac``, ``sqrt`` or ``^``, or with ``""`` perhaps a list."""
    closed = ""
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise NotMathematics(f"the character {text[position:].lstrip()[0]!r} has no meaning there")
        kind, spaced, position, gap = match.lastgroup, gap or match.end(1) > position, match.end(), False
        value = match[kind]  # type: ignore[index]
        if kind == "sign" or kind == "escaped":
            if value in "([{":
                before = tokens[-1].value if tokens and kind == "sign" and value == "{" else ""
                second = before == "}" and closed == "frac"
                groups.append("frac below" if second else before if before in _ARGUMENTS else "")
            elif value in ")]}" and groups:
                closed = groups.pop()
            kind = value if kind == "sign" else "\\" + value
        elif kind == "number":
            grouped = _THOUSANDS.match(text, match.start("number")) if thousands else None
            if grouped and (not groups or groups[-1] or ",0" in grouped[0]):  # (1,000 + 1) is no tuple.
                value, position = grouped[0].replace(",", ""), grouped.end()
            else:
                value = value.replace("{,}", "").replace(" ", "")
            if len(value) > 3:
                _check_number(value)
        elif kind == "command" and value in _WORDS:
            kind, bold = "number set" if value == "mathbb" else "text", value in _BOLD
            value, position = _argument(text, position)
            if "\\" in value:
                value = _IN_A_UNIT.sub(lambda command: _SYMBOLS[command[1]], value)  # \mathrm{\mu m}
            if not value.strip():
                gap = True
                continue
            if bold and len(value) == 1 and value.isalpha():
                kind = "word"  # A vector or a matrix, and never a unit.
            if _SIGNS_ALONE.fullmatch(value) or (  # \text{42}, \text{-}
                text.startswith("_", position) and _HEXADECIMAL.fullmatch(value)  # \text{2A}_{16}
            ):
                tokens += tokenise(value.strip())
                continue
            if _FORMULA_INSIDE.search(value):  # \mathbf{\frac{1}{2}}
                tokens += tokenise(value.strip(), thousands=thousands)
                continue
            if joint := _JOINT.match(value):  # \text{ goats and }
                tokens += [Token("text", part, spaced) for part in joint.groups() if part]
                continue
        elif kind == "finish":
            break
        tokens.append(Token(kind, value, spaced))  # type: ignore[arg-type]
        if len(tokens) > MAX_TOKENS:
            raise TooComplex(f"it has more than {MAX_TOKENS} tokens")
    return tokens


def _check_number(value: str) -> None:
    if len(value) > MAX_DIGITS:
        raise TooComplex(f"it has a number of more than {MAX_DIGITS} digits")
    exponent = value.lower().partition("e")[2]
    if exponent and abs(int(exponent)) > MAX_EXPONENT:
        raise TooComplex(f"it has a power of ten beyond {MAX_EXPONENT}")


def _argument(text: str, position: int) -> tuple[str, int]:
    """The text inside the braces that open at ``position``, and the position after them."""
    while position < len(text) and text[position] == " ":
        position += 1
    if position >= len(text):
        raise NotMathematics("a command has no argument")
    if text[position] != "{":
        return text[position], position + 1
    depth = 0
    for index in range(position, len(text)):
        if text[index] == "{":
            depth += 1
        elif text[index] == "}":
            depth -= 1
            if depth == 0:
                return text[position + 1 : index], index + 1
    raise NotMathematics("a brace is never closed")


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
    tokens in place of the one just read, and goes back to them. ``bar_ends`` counts the open constructs that a "|"
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
        """Puts ``tokens`` in place of the one just read; the first of them is read next."""
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


class Grammar(TokenStream):
    """What the parts of the parser call of each other; ``parse.Parser`` is all of them."""

    __slots__ = ()

    _answer: Callable[[], Node]
    _list: Callable[..., Node]
    _relation: Callable[[], Node]
    _measured: Callable[[], Node]
    _ratio: Callable[[], Node]
    _sum: Callable[[], Node]
    _product: Callable[[], Node]
    _power: Callable[[], Node]
    _signed_power: Callable[[], Node]
    """A power with signs before it."""
    _starts_factor: Callable[[], bool]
    """Whether a factor follows without a sign of multiplication."""
    _primary: Callable[[], Node]
    _command: Callable[[], Node]
    _argument: Callable[..., Node]
    """The argument of a command: a group in braces, or the next single token."""
    _scripts: Callable[..., dict[str, Node]]
    """The arguments of ``_`` and ``^``, by these signs, of those that are allowed."""
    _brackets: Callable[[], Node]
    _set: Callable[[], Node]
    _items: Callable[[], tuple[Node, ...]]
    _braces: Callable[..., Node]
    _function: Callable[[str], Node]
    _sympy_call: Callable[[str], Node]
    _arrangement: Callable[[str], Node | None]
    _called_arrangement: Callable[[str], Node | None]
