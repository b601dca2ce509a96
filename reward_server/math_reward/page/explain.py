"""Grades a completion and shows how both sides were read. It runs in a worker process, where all texts are parsed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

from math_reward.grader import Grade, Options, Stage, grade
from math_reward.grader.errors import NotMathematics, TooComplex
from math_reward.grader.mathematics.numeric import where_they_differ
from math_reward.grader.mathematics.propositions import line_that_differs, proposition
from math_reward.grader.notation.parse import parse
from math_reward.grader.notation.syntax import Node, symbols
from math_reward.grader.reading import Reference
from math_reward.page.mathml import to_mathml

BACKSLASH = "\\"


@dataclass(frozen=True)
class Explanation(Grade):
    """A grade with both sides as they were parsed. Its ``rule`` also says where two functions differ."""

    answer_mathml: str | None = None
    """A ``<math>`` element; None if there is no answer, or it is not mathematics."""
    reference_mathml: str | None = None
    """A ``<math>`` element; None if the reference is not mathematics."""
    difference_mathml: tuple[str, str] | None = None
    """The parts of the reference and of the answer that differ; None if these are the whole."""


def explain(completion: str, reference: str | Sequence[str], prompt: str | None, options: Options) -> Explanation:
    """A grader with the arguments of ``math_reward.grader.grade``. Never raises because of what the texts contain."""
    graded = grade(completion, reference, prompt, options)
    answer = None if graded.answer is None else _drawn(parse, graded.answer)
    expected = _drawn(_tree, graded.reference)
    parts = None if graded.correct else graded.difference
    drawn = None if parts is None else (to_mathml(parts[0]), to_mathml(parts[1]))
    known = {field.name: getattr(graded, field.name) for field in fields(Grade)}
    return Explanation(
        **{**known, "rule": _logic(graded) or _rule(graded)},
        answer_mathml=answer,
        reference_mathml=expected,
        difference_mathml=None if drawn == (expected, answer) else drawn,
    )


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


def _tree(reference: str) -> Node:
    read = Reference.read(reference)
    if read.fault is not None:
        raise NotMathematics(read.fault)
    return read.reading.tree


def _drawn(read: Callable[[str], Node], text: str) -> str | None:
    try:
        return to_mathml(read(text))
    except (NotMathematics, TooComplex, RecursionError, MemoryError):
        return None
