"""The type of a rule of comparison."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from math_reward.grader.syntax import Node

if TYPE_CHECKING:
    from math_reward.grader.compare import Comparison


class Rule(NamedTuple):
    """How two trees of certain kinds are compared."""

    name: str
    sentence: str
    """The rule in one sentence, which the service's page shows."""
    example: tuple[str, str, str]
    """A reference, an answer that the rule accepts and one that it rejects."""
    applies: Callable[[Node, Node], bool]
    """Whether the rule applies to this reference and this answer; the first rule in ``RULES`` that applies decides."""
    same: Callable[[Comparison, Node, Node], bool]
    """Whether the two are the same."""
