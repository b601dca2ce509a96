"""Functions that nobody knows, such as ``f'`` in an equation: each is a variable of its own."""

from __future__ import annotations

from math_reward.grader.evaluation import is_known
from math_reward.grader.syntax import Call, Node, Symbol, rebuilt


def as_variables(*nodes: Node) -> tuple[Node, ...]:
    """The nodes with every call of an unknown function as a variable, the same one for the same call."""
    names: list[Call] = []

    def change(part: Node) -> Node | None:
        if not isinstance(part, Call) or is_known(part.function):
            return None
        if part not in names:
            names.append(part)
        return Symbol(f"call {names.index(part)}")

    return tuple(rebuilt(node, change) for node in nodes)
