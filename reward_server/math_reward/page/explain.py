"""Grades a completion and says why. It runs in a worker process, where all texts are parsed."""

import dataclasses
from collections.abc import Sequence

from math_reward.grader import Grade, Options, grade
from math_reward.grader.mathematics.numeric import where_they_differ
from math_reward.grader.notation.syntax import symbols

BACKSLASH = "\\"


def explain(completion: str, reference: str | Sequence[str], prompt: str | None, options: Options) -> Grade:
    """A grader with the arguments of ``math_reward.grader.grade``, whose ``rule`` also says where two functions
    differ. Never raises because of what the texts contain.
    """
    graded = grade(completion, reference, prompt, options)
    return dataclasses.replace(graded, rule=_rule(graded))


def _rule(graded: Grade) -> str | None:
    """The rule that decided, and a point where two functions differ."""
    if graded.rule is None:
        return None
    rule, parts = graded.rule.replace("``", ""), graded.difference
    known = not graded.correct and parts is not None and symbols(parts[0]) | symbols(parts[1])
    place = where_they_differ(*parts) if known and parts else None
    if place is None:
        return rule
    point, value, other = place
    at = ", ".join(f"{name.removeprefix(BACKSLASH)} = {number:g}" for name, number in point.items())
    return f"{rule} At {at} the reference is {value:.6g} and the answer {other:.6g}."
