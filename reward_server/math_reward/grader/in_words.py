"""Whether a wrong answer is one that mathematics decided, or one where words alone were compared.

An answer is *undecided* if it or the reference has words that the grader knows by their letters alone, and the two
would be the same if those words meant what stands in their place on the other side.

A text with words that cannot be parsed is one such word. Yes, no, true, false, odd, even, "undefined" and the letters
of choices are known. So is what stands around a number or around the reference itself, where the reference has no
words: units and labels are dropped, and all other words may change it ("not 42", "42 if n is odd", "(C) is wrong").
"""

from __future__ import annotations

import re

from math_reward.grader.errors import NotMathematics, TooComplex, Undefined
from math_reward.grader.mathematics.propositions import proposition
from math_reward.grader.notation.calendar_dates import date
from math_reward.grader.notation.literals import unwrapped
from math_reward.grader.notation.syntax import Node, Text, walk
from math_reward.grader.notation.texts import wording
from math_reward.grader.reading import Answer, Reference
from math_reward.grader.rules import RULES
from math_reward.grader.rules.comparison import Comparison
from math_reward.grader.rules.known_words import is_known
from math_reward.grader.rules.labels import Contradiction
from math_reward.grader.verdict import Options

_NUMBER_OR_CHOICES = re.compile(r"\d|^[A-J]{1,10}$")


def undecided(reference: Reference, answer: Answer, options: Options) -> str | None:
    """A sentence that says which side is in words, if a wrong answer is undecided; else None."""
    if reference.is_integer and answer.is_integer:
        return None
    if reference.day is not None and date(answer.text) is not None:
        return None
    if reference.proposition is not None and proposition(answer.text) is not None:
        return None
    expected = reference.reading.tree
    try:
        tree = answer.reading.tree
    except TooComplex:
        return None
    except NotMathematics:
        if wording(answer.normal) is None:
            return None
        tree = Text(answer.normal)
    reference_in_words, answer_in_words = _in_words(expected), _in_words(tree)
    if not (reference_in_words or answer_in_words):
        return None
    if not reference_in_words and _stands_among_words(reference, answer):
        return None
    try:
        if not Comparison(options, RULES, words_may_agree=True).same(expected, tree):
            return None
    except (TooComplex, Undefined, Contradiction):
        return None
    sides = "The answer and the reference are" if reference_in_words and answer_in_words else "The answer is"
    return f"{sides if answer_in_words else 'The reference is'} in words, which mathematics does not decide."


def _stands_among_words(reference: Reference, answer: Answer) -> bool:
    """Whether the answer has a number, or the reference itself, or is letters of choices."""
    if _NUMBER_OR_CHOICES.search(unwrapped(answer.normal)):
        return True
    return re.search(rf"(?<![A-Za-z]){re.escape(reference.normal)}(?![A-Za-z])", answer.normal) is not None


def _in_words(tree: Node) -> bool:
    return any(isinstance(node, Text) and not is_known(node) for node in walk(tree))
