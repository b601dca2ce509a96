"""Which words the grader knows by more than their letters. The others mathematics leaves open."""

from __future__ import annotations

from math_reward.grader.notation.syntax import Node, Symbol, Text
from math_reward.grader.notation.texts import wording

_KNOWN = frozenset(["yes", "no", "true", "false", "odd", "even", "undefined"])


def is_open(node: Node) -> bool:
    """Whether it is a word other than yes, no, true, false, odd, even and "undefined". One Chinese sign is a word."""
    if isinstance(node, Symbol):
        return "\u3400" <= node.name[0] <= "\u9fff"
    return isinstance(node, Text) and node.text not in _KNOWN and wording(node.text) is not None
