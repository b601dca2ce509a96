"""One comparison of a reference and an answer, by rules that it is given: the first that applies decides.

Both are trees of `syntax.py`. The comparison is not symmetric: the reference sets the form. A decimal reference of
three significant digits or more is taken as rounded, so 27/59 is 0.458; a unit that only one side has is dropped; two
different units are not equal.

Words are compared here too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from math_reward.grader.mathematics.matrices import calculated
from math_reward.grader.notation.syntax import Constant, Node, Product, Symbol, Text
from math_reward.grader.notation.texts import wording
from math_reward.grader.verdict import Options, Stage

_KNOWN = frozenset(["yes", "no", "true", "false", "odd", "even", "undefined"])
_ORDER = (Stage.STRING, Stage.EXACT, Stage.STRUCTURE, Stage.NUMERIC, Stage.SYMPY)


def is_open(node: Node) -> bool:
    """Whether it is a word other than yes, no, true, false, odd, even and "undefined". One Chinese sign is a word."""
    if isinstance(node, Symbol):
        return "\u3400" <= node.name[0] <= "\u9fff"
    return isinstance(node, Text) and node.text not in _KNOWN and wording(node.text) is not None


class Rule(NamedTuple):
    """How two trees of certain kinds are compared."""

    name: str
    sentence: str
    """The rule in one sentence, which the service's page shows."""
    example: tuple[str, str, str]
    """A reference, an answer that the rule accepts and one that it rejects."""
    applies: Callable[[Node, Node], bool]
    """Whether the rule applies to this reference and this answer."""
    same: Callable[[Comparison, Node, Node], bool]
    """Whether the two are the same."""


def either(applies: Callable[[Node], bool]) -> Callable[[Node, Node], bool]:
    """Whether something applies to the reference or to the answer."""
    return lambda reference, answer: applies(reference) or applies(answer)


def either_is(*kinds: type) -> Callable[[Node, Node], bool]:
    """Whether the reference or the answer is of one of these kinds."""
    return lambda reference, answer: isinstance(reference, kinds) or isinstance(answer, kinds)


class Comparison:
    """One comparison of a reference and an answer.

    ``rules`` are tried in order; the first takes labels such as ``x =`` off and hands the values on. ``stage`` is the
    latest stage that was needed. ``rule`` is the rule that decided about the whole, and ``difference`` the first two
    parts, innermost, that differ. With ``words_may_agree``, words that the grader does not know are the same as
    whatever stands in their place on the other side.
    """

    def __init__(self, options: Options, rules: Sequence[Rule], *, words_may_agree: bool = False) -> None:
        self.options = options
        self._words_may_agree = words_may_agree
        self.stage = Stage.EXACT
        self.rule: Rule | None = None
        self.difference: tuple[Node, Node] | None = None
        self._labels = rules[0]
        self._rules = rules[1:]

    def reached(self, stage: Stage) -> None:
        """Records that the comparison needed this stage."""
        if _ORDER.index(stage) > _ORDER.index(self.stage):
            self.stage = stage

    def same(self, reference: Node, answer: Node) -> bool:
        """Whether the two are the same mathematically, apart from labels such as ``x =``.

        Raises:
            TooComplex: a number is too big to compute.
            Undefined: one of them has no value, such as 1/0.
            Contradiction: one of them equates two different things.
        """
        if self._labels.applies(reference, answer) and reference != answer:
            same = self._labels.same(self, reference, answer)
            self.rule = self.rule or self._labels
            return same
        return self.same_value(reference, answer)

    def same_value(self, reference: Node, answer: Node) -> bool:
        """Like ``same``, for values without labels."""
        if reference == answer:
            self.reached(Stage.STRUCTURE)
            return True
        if self._words_may_agree and (is_open(reference) or is_open(answer)):
            return True
        reference, answer = calculated(reference), calculated(answer)
        for rule in self._rules:
            if rule.applies(reference, answer):
                self.rule = self.rule or rule
                same = rule.same(self, reference, answer)
                if not same and self.difference is None:
                    self.difference = (reference, answer)
                return same
        raise AssertionError("the last rule applies to everything")

    def same_in_order(self, references: Sequence[Node], answers: Sequence[Node]) -> bool:
        """Whether both have as many items, and each is the same as the other's at its place."""
        return len(references) == len(answers) and all(map(self.same, references, answers))


def words_of(node: Node) -> str | None:
    """The words of a node; a product of letters may be a word without ``\\text``."""
    if isinstance(node, Text):
        return node.text
    if isinstance(node, Product) and all(isinstance(factor, (Symbol, Constant)) for factor in node.factors):
        return "".join(factor.name for factor in node.factors if isinstance(factor, (Symbol, Constant))).lower()
    return node.name if isinstance(node, Symbol) else None


def same_words(comparison: Comparison, reference: Node, answer: Node) -> bool:
    comparison.reached(Stage.STRUCTURE)
    return words_of(reference) == words_of(answer) is not None
