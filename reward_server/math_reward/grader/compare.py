r"""Decides whether an answer is the reference answer, in stages, the cheapest first.

Both are trees of `syntax.py`. The first of ``rules.RULES`` that applies to the two kinds of trees decides. Single
expressions come last: rational numbers exactly, others at points (`numeric.py`), then by SymPy.

The comparison is not symmetric: the reference sets the form. A decimal reference of three significant digits or more
is taken as rounded, so 27/59 is 0.458; a unit that only one side has is dropped; two different units are not equal.
"""

from __future__ import annotations

from math_reward.grader.rules import RULES, Rule
from math_reward.grader.rules.labels import are_equations, clash, with_argument_of, without_label
from math_reward.grader.rules.matrices import calculated
from math_reward.grader.rules.relations import same_relation
from math_reward.grader.rules.trees import values
from math_reward.grader.syntax import Bracketed, Collection, Matrix, Node, PlusMinus, Relation, symbols
from math_reward.grader.verdict import Options, Stage

_ORDER = (Stage.STRING, Stage.EXACT, Stage.STRUCTURE, Stage.NUMERIC, Stage.SYMPY)


class Comparison:
    """One comparison of a reference and an answer.

    ``stage`` is the latest stage that it needed. ``rule`` is the rule that decided about the whole, and
    ``difference`` the first two parts, innermost, that differ.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.stage = Stage.EXACT
        self.rule: Rule | None = None
        self.difference: tuple[Node, Node] | None = None

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
        if reference == answer:
            self.reached(Stage.STRUCTURE)
            return True
        equations = (reference, answer)
        reference_label, reference = without_label(self, reference)
        answer_label, answer = without_label(self, answer)
        if isinstance(reference, Relation) != isinstance(answer, Relation) and are_equations(*equations):
            return same_relation(self, *equations)  # y = x/2 + 2 is 2y = x + 4
        if reference_label is not None and answer_label is not None:
            if clash(reference_label, answer_label):
                if are_equations(*equations) and symbols(reference) and symbols(answer):
                    return same_relation(self, *equations)  # v = u + at, solved for a
                self.reached(Stage.STRUCTURE)
                return False
            answer = with_argument_of(reference_label, answer_label, answer)
        if self.same_value(reference, answer):
            return True
        if not are_equations(*equations) or not symbols(reference) or reference_label == answer_label:
            return False
        return same_relation(self, *equations)  # PV = nRT, solved for P

    def same_value(self, reference: Node, answer: Node) -> bool:
        """Like ``same``, for values without labels: by the first rule that applies."""
        if reference == answer:
            self.reached(Stage.STRUCTURE)
            return True
        reference, answer = calculated(reference), calculated(answer)
        for rule in RULES:
            if rule.applies(reference, answer):
                self.rule = self.rule or rule
                same = rule.same(self, reference, answer)
                if not same and self.difference is None:
                    self.difference = (reference, answer)
                return same
        raise AssertionError("the last rule applies to everything")


def mentions(comparison: Comparison, reference: Node, answer: Node) -> bool:
    """Whether the answer has several values of which the reference is one: a guess."""
    if isinstance(answer, Relation) and answer.operators == ("in",):
        answer = answer.operands[1]
    if isinstance(reference, (Collection, Bracketed, Matrix)) or not isinstance(answer, (Collection, PlusMinus)):
        return False
    return any(comparison.same(reference, item) for item in values(answer))
