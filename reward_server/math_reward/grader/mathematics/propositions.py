r"""Compares propositions and Boolean algebra by truth tables: ``\neg(A \lor B)``, ``p \to q``, ``A'B + AB'``."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass

MAX_CHARACTERS = 300
MAX_VARIABLES = 8
MAX_DEPTH = 40

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


class _NoProposition(ValueError):
    pass


def proposition(text: str) -> Proposition | None:
    """``text`` as a formula of propositional logic or Boolean algebra (capital letters); None if it is not one."""
    if len(text) > MAX_CHARACTERS or not (len(text) <= 2 or _SIGNS.search(text)):
        return None
    tokens: list[tuple[str, str]] = []
    position = 0
    text = text.strip().strip("$").strip().rstrip(".").removesuffix("\\ ")
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            return None
        if match.lastgroup != "space":
            tokens.append((match.lastgroup or "", match[0]))
        position = match.end()
    kinds = {kind for kind, _ in tokens}
    if kinds & {"plus", "over", "prime", "times"} and (
        kinds & (_WORDS - {"xor"}) or any(kind == "variable" and not value[0].isupper() for kind, value in tokens)
    ):
        return None
    try:
        parser = _Parser(tokens)
        formula = parser.formula()
        if parser.place != len(tokens) or len(parser.variables) > MAX_VARIABLES:
            return None
    except _NoProposition:
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


class _Parser:
    """Recursive descent, loosest connective first; ``implies`` binds to the right."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self.tokens = tokens
        self.place = 0
        self.variables: set[str] = set()
        self._depth = 0

    def _kind(self) -> str:
        return self.tokens[self.place][0] if self.place < len(self.tokens) else ""

    def formula(self, level: int = 0) -> Formula:
        if level == len(_LOOSEST_FIRST):
            return self._juxtaposed()
        left = self.formula(level + 1)
        while (kind := self._kind()) in _LOOSEST_FIRST[level]:
            self.place += 1
            right = self.formula(level if kind == "implies" else level + 1)
            left = _joined(_RULES[kind], left, right)
        return left

    def _juxtaposed(self) -> Formula:
        """Reads ``AB``, which is "A and B" in Boolean algebra."""
        left = self._negated()
        while self._kind() in ("variable", "over", "open") and self._is_algebra():
            left = _joined(_RULES["and"], left, self._negated())
        return left

    def _is_algebra(self) -> bool:
        return not any(kind in _WORDS for kind, _ in self.tokens)

    def _negated(self) -> Formula:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _NoProposition
        inner = self._negation() if self._kind() == "not" else self._primed(self._atom())
        self._depth -= 1
        return inner

    def _negation(self) -> Formula:
        self.place += 1
        return _not(self._negated())

    def _primed(self, inner: Formula) -> Formula:
        while self._kind() == "prime":
            self.place += 1
            inner = _not(inner)
        return inner

    def _atom(self) -> Formula:
        kind = self._kind()
        if not kind:
            raise _NoProposition
        value = self.tokens[self.place][1]
        self.place += 1
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
            raise _NoProposition
        inner = self.formula()
        if self._kind() != closing:
            raise _NoProposition
        self.place += 1
        return _not(inner) if kind == "over" else inner


def _joined(rule: Callable[[bool, bool], bool], left: Formula, right: Formula) -> Formula:
    return lambda valuation: rule(left(valuation), right(valuation))


def _not(inner: Formula) -> Formula:
    return lambda valuation: not inner(valuation)
