"""Which words the grader knows by more than their letters. The others mathematics leaves open."""

from __future__ import annotations

from math_reward.grader.notation.syntax import Text
from math_reward.grader.notation.texts import wording

_KNOWN = frozenset(["yes", "no", "true", "false", "odd", "even", "undefined"])


def is_known(node: Text) -> bool:
    """Whether it is yes, no, true, false, odd, even or "undefined", or no word at all, such as a sign."""
    return node.text in _KNOWN or wording(node.text) is None
