"""Parses a normalised answer, in LaTeX or plain mathematics, to the tree of `syntax.py`.

A recursive-descent parser; `tokens.py` has the rules, and other files the parts that read them.
Where people and TeX differ, it follows people: ``x^10`` is x to the tenth, ``1 1/2`` a mixed number, ``f(x) = ...``
names a function. Nothing that it reads is ever executed.

Answers to several questions, ``(1) 3; (2) 5``, are split into their parts first.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from fractions import Fraction

from math_reward.grader.errors import NotMathematics, TooComplex
from math_reward.grader.notation.atoms import AtomParser
from math_reward.grader.notation.labelled import labelled, names_another, numbered
from math_reward.grader.notation.normalise import normalise
from math_reward.grader.notation.operations import SumParser
from math_reward.grader.notation.remarks import restricts
from math_reward.grader.notation.syntax import (
    Bracketed,
    Collection,
    Congruence,
    Constant,
    Negative,
    Node,
    Number,
    PlusMinus,
    Power,
    Relation,
    Symbol,
    Text,
    symbols,
)
from math_reward.grader.notation.tokens import END, MAX_DIGITS, Token, tokenise
from math_reward.grader.notation.values import CLOCK, TEXT_COMMAND, MeasureParser, clock_time, spoken, unwrapped, words
from math_reward.grader.words.functions import SPELLED
from math_reward.grader.words.vocabulary import (
    INEQUALITIES,
    LEADING,
    NEGATIONS,
    NO_LABELS,
    QUALIFIERS,
    RELATIONS,
)

MAX_CHARACTERS = 2_000

_PROSE = re.compile(r"(?=[^A-Za-z]*[A-Za-z])[\w\s.,'()\-:;!?/\"&]*")
_ENGLISH_WORD = re.compile(r"[a-z']+")
_APPROXIMATION = re.compile(
    r"\\text ?\{ ?[(,]? ?(?:or )?(?:approximately|approx\.?|about|roughly|i\.e\.) ?\}(?P<number> ?-?[\d.,]{1,40})"
    r"(?:\\text ?\{[^{}]{0,60}\}|\))? ?$"
)
# "l: 3x + 4y - 5 = 0" names the line.
_NAMED_CURVE = re.compile(r"(?:[lLCEG]|\\odot ?[A-Z])(?:_\{?\d\}?)? ?: ?(?=[^=]{0,80}[xy][^=]{0,80}=)")
_NAMED_CHOICE = re.compile(r"\s?(?:[Oo]ption|[Cc]hoice|(?:[Cc]orrect )?[Aa]nswer)\s?:?\s?\(?([A-J])\)?[\s.]?")
# The words left of "=" or before a colon: \text{Area of ABC} = 42.
_LABEL = re.compile(r"[^\W\d_](?:[^\W\d_]|[ '.,()-])*(?P<end>[:=]?)")
_ANOTHER_VALUE = re.compile(r"\bnot(?!e|a)|\b(?:square|cube)s? (?:root|of)\b|\bat (?:least|most)\b")
_STATEMENT = re.compile(
    r"(?P<subject>(?:\\text ?\{)?[A-Za-z][A-Za-z' ]{3,120}) (?:is|are|equals|be) ?\}? ?(?P<value>[^A-Za-z].{0,300})$"
)


def parse(text: str, *, thousands: bool = True) -> Node:
    r"""The tree of one answer, written in LaTeX or plainly, with or without delimiters.

    Args:
        text: the answer and nothing else.
        thousands: read ``1,000`` as a number and not as a list.

    Raises:
        TooComplex: the text exceeds a limit on length, tokens, digits or nesting; this is found before any real work.
        NotMathematics: the text is empty, or neither a formula nor words.
    """
    if len(text) > MAX_CHARACTERS:
        raise TooComplex(f"it has {len(text):,} characters, and {MAX_CHARACTERS:,} are allowed")
    return parse_normalised(normalise(text), thousands=thousands)


def parse_normalised(text: str, *, thousands: bool = True) -> Node:
    """Like ``parse``, for a text that `normalise.normalise` returned."""
    if not text:
        raise NotMathematics("it is empty")
    if text.isdecimal() and len(text) <= MAX_DIGITS:
        return Number(Fraction(int(text)))  # Most references are integers and need no parser.
    if (":" in text or text[-1] in "mM." or "m}" in text or "M}" in text) and (
        clock := CLOCK.fullmatch(unwrapped(text))
    ):
        return clock_time(clock)
    if text == "DNE":
        return Text("undefined")
    if ":" in text and (named := _NAMED_CURVE.match(text)):
        text = text[named.end() :]
    if ("ption" in text or "hoice" in text) and (choice := _NAMED_CHOICE.fullmatch(unwrapped(text))):
        return Symbol(choice[1])
    if text in RELATIONS or (text[0] == "\\" and text[1:] in RELATIONS):
        return Text(RELATIONS[text.removeprefix("\\")])  # The sign itself is the answer.
    if text[0] == "(" and (answers := numbered(text)):
        try:
            return Bracketed("(", ")", tuple(parse_normalised(answer) for answer in answers))
        except NotMathematics:
            pass  # (1)(2) is a product.
    if not text.isascii() and (named_parts := labelled(text)):
        return _with_labels(named_parts)
    try:
        return Parser(tokenise(text, thousands=thousands)).whole()
    except NotMathematics:
        plain = words(text)
        formula = TEXT_COMMAND.sub("", text)
        breaks_off = "\\" in formula or formula.count("{") != formula.count("}")
        rest = _without_words_around(text)
        if plain and _PROSE.fullmatch(plain) and not breaks_off:
            if rest is None or not rest[:1].isdigit():
                return spoken(plain)
            with contextlib.suppress(NotMathematics):
                return Parser(tokenise(rest, thousands=thousands)).whole()  # the area is 7
            return spoken(plain)
        if rest is None:
            raise
        return Parser(tokenise(rest, thousands=thousands)).whole()


def _with_labels(parts: list[tuple[str, str]]) -> Node:
    """``最大值为5，最小值为1`` as two named values."""
    items = [
        Relation(("=",), (Symbol(label), parse_normalised(value))) if label else parse_normalised(value)
        for label, value in parts
    ]
    return items[0] if len(items) == 1 else Collection("list", tuple(items))


def _without_words_around(text: str) -> str | None:
    r"""The formula in ``the area is \frac{1}{2}`` or, with ``\approx``, in ``\frac{1}{3} \text{(about }0.33\text{)}``;
    None if there are no such words.
    """
    about = _APPROXIMATION.search(text)
    if about:
        return f"{text[: about.start()]} \\approx {about['number']}"
    statement = _STATEMENT.match(text)
    if statement is None or _names_another_value(statement["subject"]):
        return None
    return statement["value"]


_GLUED = re.compile(r"\b(?:half|minus|twice|double|wrong)\w|\w(?:squared|cubed|half|minus|thousand|not|never|wrong)\b")
"""Such words without a space before or after them: ``halfF = ma``."""


def _names_another_value(words: str) -> bool:
    """Whether words before a value name something else than the answer: "half the area", "the wrong answer"."""
    words = words.lower()
    if (not words.isascii() and names_another(words)) or _GLUED.search(words):
        return True
    return not NO_LABELS.isdisjoint(_ENGLISH_WORD.findall(words)) or _ANOTHER_VALUE.search(words) is not None


class Parser(MeasureParser, SumParser, AtomParser):
    """Reads the tokens of one answer in one pass, the loosest rules first."""

    __slots__ = ()

    def whole(self) -> Node:
        self._drop_leading_words()
        node = self._answer()
        if self.top.kind in (".", "!"):
            self.advance()
        if self.top is not END:
            raise NotMathematics(f"{self.top.value or self.top.kind!r} has no meaning where it stands")
        return node

    def _drop_leading_words(self) -> None:
        start = self.mark()
        while self.top.kind in ("text", "word", ":"):
            content = _ENGLISH_WORD.findall(self.top.value.lower())
            single = self.top.kind == "word" and (len(self.top.value) == 1 or self.top.value in SPELLED)
            unread = not content and any(character.isalpha() for character in self.top.value)
            if single or unread or not all(word in LEADING for word in content) or self.peek().kind in ("^", "_"):
                break
            if len(self.top.value) == 2 and self.multiplies_letters():
                break
            self.advance()
        if self.top is END or self.top.kind == "=":
            self.reset(start)

    def _answer(self) -> Node:
        items = [self._list()]
        while self.is_word("or", "ou", "oder") or self.is_command("lor"):
            self.advance()
            items.append(self._list())
        if len(items) > 1 and all(_is_assignment(item) for item in items):
            # "x = 1, y = 2 or x = 2, y = 1" is two points.
            items = [Bracketed("(", ")", item.items) for item in items if isinstance(item, Collection)]
        return items[0] if len(items) == 1 else Collection("or", tuple(items))

    def _list(self, *, in_brackets: bool = False) -> Node:
        items = [self._relation()]
        groups: list[list[Node]] = []
        while True:
            self._skip_remark(in_brackets, items[-1])
            separated, semicolon = False, False
            while self.at_separator():
                semicolon = semicolon or self.top.kind == ";"
                self.advance()
                separated = True
            if not separated or self.at_closing():
                break
            if semicolon:
                groups.append(items)
                items = []
            items.append(self._relation())
        groups.append(items)
        if len(groups) > 1 and len({len(group) for group in groups}) == 1 and len(groups[0]) > 1:
            items = [Bracketed("(", ")", tuple(group)) for group in groups]  # "p = 5, q = 2; p = 7, q = 2"
        else:
            items = [item for group in groups for item in group]
        items = _without_declarations(_with_modulus(_in_points(items)))
        return items[0] if len(items) == 1 else Collection("list", tuple(items))

    def _skip_remark(self, in_brackets: bool, before: Node) -> None:
        r"""Skips ``\text{ for all } x \in \mathbb{Z}``, up to the next separator or the end."""
        if in_brackets:
            return
        if self.top.kind == "(" and self._opens_membership():
            self._brackets()
            return
        if self.is_command("forall"):
            while self.top is not END and not self.at_separator():
                self.advance()
            return
        if self.top.kind not in ("text", "word"):
            return
        first = _ENGLISH_WORD.findall(self.top.value.lower())
        if not first or first[0] not in QUALIFIERS or NEGATIONS.intersection(first):
            return
        if first[0] in ("if", "unless", "provided") and not symbols(before):
            raise NotMathematics("a number has a condition, so it is not always the answer")
        depth = 0
        remark: list[Token] = []
        while self.top is not END and not (depth == 0 and self.at_separator()):
            if NEGATIONS.intersection(_ENGLISH_WORD.findall(self.top.value.lower())):
                raise NotMathematics("a remark after the formula takes it back")
            depth += (self.top.kind in ("(", "[", "{", "\\{")) - (self.top.kind in (")", "]", "}", "\\}"))
            remark.append(self.advance())
        if restricts(remark, before):
            raise NotMathematics("a remark after the formula restricts it")

    def _label(self) -> Text | None:
        r"""The words left of ``\text{Area} = 42``, with the "="; of ``\text{Vertex: }(3, 2)``, with the colon."""
        start = self.mark()
        said: list[str] = []
        while self.top.kind in ("text", "word") and (label := _LABEL.fullmatch(self.top.value.strip())) is not None:
            said.append(self.advance().value)
            if label["end"]:
                break
        if len(said) == 1 and label and not label["end"] and self.top.kind == "(":
            try:
                said = [f"{said[0].strip()}({self._raw_brackets()})"]  # \operatorname{Var}(X) = 5
            except NotMathematics:
                self.reset(start)
                return None
            if self.top.kind != "=":
                self.reset(start)
                return None
        words = " ".join(said).strip(" :=")
        ends = bool(said) and label is not None and label["end"] != ""
        is_label = len(words) > 1 and words.partition("(")[0] not in SPELLED
        if is_label and (self.accept("=") or self.accept(":") or ends) and not _names_another_value(words):
            return Text(words.lower())
        self.reset(start)
        return None

    def _relation(self) -> Node:
        operands: list[Node] = []
        operators: list[str] = []
        is_word = self.top.kind == "text" or (self.top.kind == "word" and len(self.top.value) > 3)
        is_word = is_word or (self.peek().kind == "(" and self.top.value in ("Var", "Cov"))
        if is_word and (label := self._label()) is not None:
            operands.append(label)
            operators.append("=")
        operands.append(self._measured())
        while True:
            kind = self.top.kind
            name = RELATIONS.get(self.top.value if kind in ("command", "word") else kind)
            if name is None or (kind == "word" and name == "in" and not self.names_a_set()):
                break
            self.advance()
            if name in (">", "<") and self.accept("="):
                name += "="
            operators.append(name)
            operands.append(self._measured())
        return Relation(tuple(operators), tuple(operands)) if operators else operands[0]


def _assigned(items: Sequence[Node]) -> list[str]:
    """The names that get a value: x and y in ``x = 1, y = 2``."""
    return [
        item.operands[0].name
        for item in items
        if isinstance(item, Relation) and item.operators == ("=",) and isinstance(item.operands[0], Symbol)
    ]


def _is_assignment(node: Node) -> bool:
    """Whether ``node`` gives each of several names a value: ``x = 1, y = 2``."""
    if not isinstance(node, Collection) or node.kind != "list":
        return False
    names = _assigned(node.items)
    return len(node.items) == len(names) == len({*names}) > 1


def _in_points(items: list[Node]) -> list[Node]:
    """``p = 5, q = 2, p = 7, q = 2`` is two points: the same names come again in the same order."""
    names = _assigned(items)
    size = len({*names})
    if len(names) != len(items) or not 1 < size < len(names) or names != names[:size] * (len(names) // size):
        return items
    return [Bracketed("(", ")", tuple(items[at : at + size])) for at in range(0, len(items), size)]


def _with_modulus(items: list[Node]) -> list[Node]:
    r"""The items with the last one's modulus: in ``x \equiv 0, 1 \pmod 3`` it belongs to each."""
    last = items[-1].operands[-1] if isinstance(items[-1], Relation) else items[-1]
    if len(items) < 2 or not isinstance(last, Congruence):
        return items
    congruences: list[Node] = []
    for item in items[:-1]:
        value = item.operands[-1] if isinstance(item, Relation) else item
        if not isinstance(value, (Number, Negative, PlusMinus)):
            return items
        congruences.append(Congruence(value, last.modulus))
    return [*congruences, last]


def _without_declarations(items: list[Node]) -> list[Node]:
    """The items without declarations such as ``k in Z`` in ``x = k pi, k in Z``; that of ``x > 3, x in Z`` stays,
    since the answer is about x.
    """
    bounded = {
        name
        for item in items
        if isinstance(item, Relation) and INEQUALITIES.intersection(item.operators)
        for name in symbols(item)
    }
    return [
        item for item in items if not _is_membership(item) or (isinstance(item, Relation) and symbols(item) & bounded)
    ] or items


def _is_membership(node: Node) -> bool:
    if not isinstance(node, Relation) or node.operators != ("in",):
        return False
    member, domain = node.operands
    while isinstance(domain, Power):  # Z^+
        domain = domain.base
    names_set = isinstance(domain, Symbol) and domain.name in ("Z", "N", "R", "Q", "C")
    return isinstance(member, Symbol) and (names_set or isinstance(domain, Constant))
