r"""Compares propositions and Boolean algebra by truth tables: ``\neg(A \lor B)``, ``p \to q``, ``A'B + AB'``."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass

from math_reward.grader.errors import NotMathematics, TooComplex
from math_reward.grader.notation.tokens import END, Token, TokenStream

MAX_CHARACTERS = 300
MAX_VARIABLES = 8

Valuation = dict[str, bool]
Formula = Callable[[Valuation], bool]

_SPELLINGS = {
    "not": r"\\(?:neg|lnot|sim)(?![a-zA-Z])|[¬~!]|\bnot\b|\bNOT\b",
    "and": r"\\(?:land|wedge)(?![a-zA-Z])|[∧]|&&?|\band\b|\bAND\b|\\text ?\{ ?and ?\}",
    "or": r"\\(?:lor|vee)(?![a-zA-Z])|[∨]|\|\|?|\bor\b|\bOR\b|\\text ?\{ ?or ?\}",
    "xor": r"\\(?:oplus|veebar)(?![a-zA-Z])|[⊕]|\bxor\b|\bXOR\b",
    "iff": r"\\(?:iff|(?:long)?leftrightarrow|(?:Long)?[Ll]eftrightarrow|equiv)(?![a-zA-Z])|[⇔↔]|<=>|<->",
    "implies": r"\\(?:implies|to|(?:long)?rightarrow|(?:Long)?[Rr]ightarrow)(?![a-zA-Z])|[⇒→]|=>|->",
    "open": r"\\(?:left|[bB]igg?l?)? ?[(\[]|[(\[]",
    "close": r"\\(?:right|[bB]igg?r?)? ?[)\]]|[)\]]",
    "constant": r"\\(?:top|bot)(?![a-zA-Z])|\bTrue\b|\bFalse\b|\b[TF]\b",
    "over": r"\\(?:overline|bar) ?\{|\\bar ?(?=[A-Z])",
    "brace": r"\{", "unbrace": r"\}",
    "plus": r"\+", "times": r"\\cdot(?![a-zA-Z])|·|\*", "prime": r"'|\^\{? ?\\prime ?\}?",
    "variable": r"[A-Za-z](?:_\{?\d\}?)?(?![a-zA-Z]{3})",
    "space": r"\s+|\\[,;: ]|\\displaystyle|\\q?quad(?![a-zA-Z])",
}  # fmt: skip
_TOKEN = re.compile("|".join(f"(?P<{name}>{spelling})" for name, spelling in _SPELLINGS.items()))
_WORDS = frozenset(["not", "and", "or", "xor", "iff", "implies"])
_SIGNS = re.compile(
    r"\\(?:neg|lnot|land|wedge|lor|vee|oplus|veebar|implies|iff|to|[Ll]?(?:ong)?(?:left)?[Rr]ightarrow|Leftrightarrow"
    r"|overline|bar|sim|equiv)(?![a-zA-Z])|[¬∧∨⊕⇒⇔↔→']|&&|\b(?:and|or|not|AND|OR|NOT)\b"
)


@dataclass(frozen=True)
class Proposition:
    """A formula, its variables, and whether it has a connective."""

    variables: frozenset[str]
    holds: Formula
    compound: bool


def proposition(text: str) -> Proposition | None:
    """``text`` as a formula of propositional logic or Boolean algebra (capital letters); None if it is not one."""
    if len(text) > MAX_CHARACTERS or not (len(text) <= 2 or _SIGNS.search(text)):
        return None
    tokens: list[Token] = []
    position = 0
    text = text.strip().strip("$").strip().rstrip(".").removesuffix("\\ ")
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            return None
        if match.lastgroup != "space":
            tokens.append(Token(match.lastgroup or "", match[0], False))
        position = match.end()
    kinds = {token.kind for token in tokens}
    if kinds & {"plus", "over", "prime", "times"} and (
        kinds & (_WORDS - {"xor"}) or any(kind == "variable" and not value[0].isupper() for kind, value, _ in tokens)
    ):
        return None
    try:
        parser = _Parser(tokens, is_algebra=not kinds & _WORDS)
        formula = parser.formula()
        if parser.top is not END or len(parser.variables) > MAX_VARIABLES:
            return None
    except (NotMathematics, TooComplex):
        return None
    algebra = bool(kinds & {"over", "prime"}) and bool(kinds & {"plus", "times", "xor"} or len(parser.variables) > 1)
    return Proposition(frozenset(parser.variables), formula, bool(kinds & _WORDS) or algebra)


def equivalent(left: Proposition, right: Proposition) -> bool:
    """Whether both are true for the same values of all their variables."""
    return len(left.variables | right.variables) <= MAX_VARIABLES and line_that_differs(left, right) is None


def line_that_differs(left: Proposition, right: Proposition) -> Valuation | None:
    """The first line in which the two truth tables differ; None if they are equal."""
    names = sorted(left.variables | right.variables)[:MAX_VARIABLES]
    lines = (dict(zip(names, row, strict=True)) for row in itertools.product((False, True), repeat=len(names)))
    return next((line for line in lines if left.holds(line) != right.holds(line)), None)


_LOOSEST_FIRST = (("iff",), ("implies",), ("or", "plus", "xor"), ("and", "times"))
_RULES: dict[str, Callable[[bool, bool], bool]] = {
    "iff": lambda a, b: a == b,
    "implies": lambda a, b: b or not a,
    "or": lambda a, b: a or b,
    "plus": lambda a, b: a or b,
    "xor": lambda a, b: a != b,
    "and": lambda a, b: a and b,
    "times": lambda a, b: a and b,
}


class _Parser(TokenStream):
    """Recursive descent, loosest connective first; ``implies`` binds to the right."""

    __slots__ = ("is_algebra", "variables")

    def __init__(self, tokens: list[Token], *, is_algebra: bool) -> None:
        super().__init__(tokens)
        self.is_algebra = is_algebra
        """Whether ``AB`` is "A and B"."""
        self.variables: set[str] = set()

    def formula(self, level: int = 0) -> Formula:
        if level == len(_LOOSEST_FIRST):
            return self._juxtaposed()
        left = self.formula(level + 1)
        while (kind := self.top.kind) in _LOOSEST_FIRST[level]:
            self.advance()
            right = self.formula(level if kind == "implies" else level + 1)
            left = _joined(_RULES[kind], left, right)
        return left

    def _juxtaposed(self) -> Formula:
        left = self.below(self._negated)
        while self.is_algebra and self.top.kind in ("variable", "over", "open"):
            left = _joined(_RULES["and"], left, self.below(self._negated))
        return left

    def _negated(self) -> Formula:
        if self.accept("not"):
            return _not(self.below(self._negated))
        inner = self._atom()
        while self.accept("prime"):
            inner = _not(inner)
        return inner

    def _atom(self) -> Formula:
        kind, value, _ = self.advance()
        if kind == "variable":
            name = value.replace("{", "").replace("}", "")
            self.variables.add(name)
            return lambda valuation: valuation[name]
        if kind == "constant":
            truth = value in (r"\top", "True", "T")
            return lambda valuation: truth
        if kind == "over" and not value.endswith("{"):
            return _not(self._atom())
        closing = {"open": "close", "brace": "unbrace", "over": "unbrace"}.get(kind)
        if closing is None:
            raise NotMathematics(f"{value!r} has no meaning there")
        inner = self.formula()
        self.expect(closing)
        return _not(inner) if kind == "over" else inner


def _joined(rule: Callable[[bool, bool], bool], left: Formula, right: Formula) -> Formula:
    return lambda valuation: rule(left(valuation), right(valuation))


def _not(inner: Formula) -> Formula:
    return lambda valuation: not inner(valuation)
