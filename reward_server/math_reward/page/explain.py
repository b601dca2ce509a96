"""Grades a completion and says why. It runs in a worker process, where all texts are parsed."""

import dataclasses
from collections.abc import Sequence

from math_reward.grader import Grade, Options, Stage, grade
from math_reward.grader.mathematics.numeric import where_they_differ
from math_reward.grader.mathematics.propositions import line_that_differs, proposition
from math_reward.grader.notation.syntax import symbols

BACKSLASH = "\\"


def explain(completion: str, reference: str | Sequence[str], prompt: str | None, options: Options) -> Grade:
    """A grader with the arguments of ``math_reward.grader.grade``, whose ``rule`` also says where two functions
    differ. Never raises because of what the texts contain.
    """
    graded = grade(completion, reference, prompt, options)
    return dataclasses.replace(graded, rule=_logic(graded) or _rule(graded))


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


def _logic(graded: Grade) -> str | None:
    """A sentence on the line of the truth tables where two propositions differ; None if the reference is not one."""
    if graded.answer is None or graded.stage in (None, Stage.STRING):
        return None
    reference, answer = proposition(graded.reference), proposition(graded.answer)
    if reference is None or not reference.compound:
        return None
    sentence = "Propositions are the same where their truth tables are."
    line = None if answer is None else line_that_differs(reference, answer)
    if graded.correct or answer is None or line is None:
        return sentence
    where = ", ".join(f"{name} is {'true' if value else 'false'}" for name, value in line.items())
    truth = ("true", "false") if reference.holds(line) else ("false", "true")
    return f"{sentence} Where {where}, the reference is {truth[0]} and the answer {truth[1]}."
