"""Which words the grader knows by more than their letters. The others mathematics leaves open."""

from __future__ import annotations

from math_reward.grader.notation.syntax import Text
from math_reward.grader.notation.texts import wording
from math_reward.grader.words.vocabulary import NO_LABELS, QUALIFIERS

_KNOWN = frozenset(["yes", "no", "true", "false", "odd", "even", "undefined"])
_CHOICES = frozenset("ABCDEFGHIJ")
_RESTRICTS = NO_LABELS | frozenset(QUALIFIERS)


def is_known(node: Text) -> bool:
    """Whether a word is yes, no, true, false, odd, even or "undefined", the letters of choices, or no word at all."""
    return node.text in _KNOWN or set(node.text) <= _CHOICES or wording(node.text) is None


def restricts_a_number(text: str) -> bool:
    """Whether words take a number back or restrict it: ``not 42``, ``less than 42``, ``42 if n is odd``."""
    said = wording(text)
    return (
        said is not None and any(character.isdigit() for character in text) and not _RESTRICTS.isdisjoint(said.words)
    )
