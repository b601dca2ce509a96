"""Parses words and letters: variables with an index, functions with a name of their own, words in ``\text``."""

from __future__ import annotations

from math_reward.grader.errors import NotMathematics
from math_reward.grader.notation.functions import ARRANGEMENTS
from math_reward.grader.notation.grammar import Grammar
from math_reward.grader.notation.literals import spoken, words
from math_reward.grader.notation.stream import END
from math_reward.grader.notation.syntax import Call, Constant, Node, Symbol, Text
from math_reward.grader.notation.tokenise import Token
from math_reward.grader.words.functions import SPELLED, SYMPY_NAMES
from math_reward.grader.words.vocabulary import CONSTANTS, GREEK

_NAMED_FUNCTIONS = {"\\zeta": "zeta", "\\Gamma": "gamma"}
_SHORT_GREEK = ("mu", "nu")
"""Letters of Greek that may be two of Latin: one only alone in brackets, or beside a ``*``, which divides ``m*u``."""
SHORT_WORDS = frozenset(
    [
        "yes", "no", "odd", "all", "any", "one", "two", "six", "ten", "the", "of", "is", "it", "to", "by",
        "none", "nan", "zoo", "not", "and", "or", "true", "red", "blue", "even", "zero", "four", "five", "nine", "dne",
    ]
)  # fmt: skip
_SPLITTABLE = (
    "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "sqrt", "sin", "cos", "tan", "cot", "sec", "csc", "log",
    "ln",
)  # fmt: skip


class NameParser(Grammar):
    """Reads words and letters."""

    __slots__ = ()

    def _word(self) -> Node:
        token = self.advance()
        value = token.value
        if value in SPELLED:
            return self._function(SPELLED[value])
        if value in ("nCr", "nPr") and self.top.kind == "(":
            return self._called_arrangement(value[1]) or self._braces()
        if value == "Matrix" and self.top.kind == "(":
            return self._brackets()
        if value in ("pi", "infty", "infinity", "inf", "oo", "Infinity"):
            return Constant(CONSTANTS[value.lower()])
        if self.top.kind in ("(", ".") and not self.top.spaced and value in SYMPY_NAMES:
            start = self.mark()
            try:
                return self._sympy_call(value)
            except NotMathematics:
                self.reset(start)
        alone = self.before(2).kind == "(" and self.top.kind == ")"
        if value in GREEK or (value in _SHORT_GREEK and (alone or self.has("*"))):
            return self._symbol("\\" + value)
        prefix = function_prefix(value)
        if prefix:
            self.replace(Token("word", prefix, token.spaced), Token("word", value[len(prefix) :], False))
            return self._word()
        if (suffix := function_suffix(value)) and self.top.kind == "(":  # xsin(x)
            parts = [*value.removesuffix(suffix), suffix]
            self.replace(*[Token("word", part, token.spaced and not index) for index, part in enumerate(parts)])
            return self._word()
        is_word = value in SHORT_WORDS or (value.lower() in SHORT_WORDS and not value.isupper())
        if len(value) > 3 or (is_word and not (len(value) == 2 and self.multiplies_letters(1))):
            raise NotMathematics(f"{value!r} is a word")
        if len(value) == 1:
            return self._symbol(value)
        # "xy" is x times y; an index or a power belongs to the last letter.
        self.replace(*[Token("word", letter, token.spaced and index == 0) for index, letter in enumerate(value)])
        return self._word()

    def _symbol(self, name: str) -> Node:
        if name in ARRANGEMENTS and self.top.kind in ("_", "^"):
            chosen = self._arrangement(name)
            if chosen is not None:
                return chosen
        if self.top.kind == "_":
            self.advance()
            if name == "k" and self.top.kind == "word" and self.top.value.startswith("B") and len(self.top.value) > 1:
                token = self.advance()  # k_BT
                self.replace(Token("word", "B", False), Token("word", token.value[1:], False))
            return Symbol(f"{name}_{self._index()}")
        if name in _NAMED_FUNCTIONS and self.top.kind == "(":
            return Call(_NAMED_FUNCTIONS[name], self._items())
        if name in ("C", "P") and self.top.kind == "(" and not self.top.spaced:
            called = self._called_arrangement(name)
            if called is not None:
                return called
        if name in "fghFGH" and self._is_inverse():
            return Call(f"apply {name}^-1", self._items())
        if self.top.kind == "(" and self._is_application(name):
            start = self.mark()
            try:
                items = self._items()
            except NotMathematics:
                if name not in "PE":
                    raise
                self.reset(start)
                items = (Text(self._raw_brackets()),)  # P(A|B), P(X = 2)
            return Call(f"apply {name}", items)
        return Constant(name) if name in ("e", "i") else Symbol(name)

    def _is_inverse(self) -> bool:
        """Skips the ``^{-1}`` of ``f^{-1}(x)``; False if it is not next."""
        start = self.mark()
        if self.accept("^"):
            braced = self.accept("{")
            if self.accept("-") and self.top.value == "1":
                self.advance()
                if (not braced or self.accept("}")) and self.top.kind == "(":
                    return True
        self.reset(start)
        return False

    def _is_application(self, name: str) -> bool:
        """Whether ``name(`` is a function and its argument: f, g, h always, others where ``=`` follows."""
        if self.top.spaced and name not in "fghFGH":
            return False
        depth = 0
        for ahead, token in enumerate(self.rest()):
            kind = token.kind
            depth += (kind in ("(", "{", "[")) - (kind in (")", "}", "]"))
            if depth == 0:
                following = self.peek(ahead + 1)
                names_it = following.kind == "=" and (
                    self.mark() < 2
                    or self.before(2).kind in (",", ";", "text", "word", "(", "&")
                    or self.before(2).value == "and"
                )
                return names_it or name in "fghFGH"
        return False

    def _raw_brackets(self) -> str:
        """The text in round brackets, as it is written."""
        self.expect("(")
        depth = 1
        parts: list[str] = []
        while True:
            token = self.advance()
            depth += (token.kind == "(") - (token.kind == ")")
            if depth == 0:
                return "".join(parts)
            parts.append(token.value or token.kind)

    def _index(self) -> str:
        if self.top.kind != "{":
            return self.advance().value
        self.advance()
        depth = 1
        parts: list[str] = []
        while self.top is not END:
            token = self.advance()
            depth += (token.kind == "{") - (token.kind == "}")
            if depth == 0:
                return "".join(parts)
            parts.append(token.value)
        raise NotMathematics("the braces of an index are never closed")

    def _text(self) -> Node:
        token = self.advance()
        value = token.value.strip()
        if value in SPELLED:
            return self._function(SPELLED[value])
        if len(value) == 1 and value.isalpha():
            return self._symbol(value)
        if value == "pi":
            return Constant(value)
        before = self.before(2).kind
        if before in (",", ";", "{", "&", "(", "=", "\\{", "text"):
            parts = [value]
            while self.top.kind == "text" and not self.at_separator() and not self.is_word("or"):
                parts.append(self.advance().value)
            plain = words(" ".join(parts))
            if plain and (self.at_separator() or self.at_closing() or self.is_word("or")):
                return spoken(plain)
        raise NotMathematics(f"the words {value!r} stand where a number or a variable should")


def function_suffix(word: str) -> str | None:
    """The ``sin`` of ``xsin``."""
    return next((name for name in _SPLITTABLE if word.endswith(name) and len(word) - len(name) in (1, 2)), None)


def function_prefix(word: str) -> str | None:
    """The ``sin`` of ``sinx``: people forget the space."""
    for name in _SPLITTABLE:
        if word.startswith(name) and (len(word) - len(name) in (1, 2) or word[len(name) :] in GREEK):
            return name
    return None
