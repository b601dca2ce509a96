"""Replaces calls of unknown functions, such as ``f'(x)`` in an equation, by variables."""

from __future__ import annotations

from math_reward.grader.mathematics.evaluation import is_known
from math_reward.grader.notation.syntax import Call, Node, Symbol, rebuilt


def as_variables(*nodes: Node) -> tuple[Node, ...]:
    """The nodes with a variable for every call of an unknown function, the same variable for the same call."""
    names: list[Call] = []

    def change(part: Node) -> Node | None:
        if not isinstance(part, Call) or is_known(part.function):
            return None
        if part not in names:
            names.append(part)
        return Symbol(f"call {names.index(part)}")

    return tuple(rebuilt(node, change) for node in nodes)
