"""Grades a completion and shows how both sides were read. It runs in a worker process, where all texts are parsed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

from math_reward.grader import Grade, Options, Stage, grade
from math_reward.grader.compare import Comparison
from math_reward.grader.grading import parsed_reference
from math_reward.grader.numeric import where_they_differ
from math_reward.grader.parse import parse
from math_reward.grader.propositions import line_that_differs, proposition
from math_reward.grader.rules import RULES
from math_reward.grader.syntax import Node, symbols
from math_reward.grader.tokens import NotMathematics, TooComplex
from math_reward.page.mathml import to_mathml

BACKSLASH = "\\"


@dataclass(frozen=True)
class Explanation(Grade):
    """A grade with both sides as they were parsed."""

    answer_mathml: str | None = None
    """A ``<math>`` element; None if there is no answer, or it is not mathematics."""
    reference_mathml: str | None = None
    """A ``<math>`` element; None if the reference is not mathematics."""
    rule: str | None = None
    """The rule that decided, in a sentence; None if the two were not compared as trees."""
    difference_mathml: tuple[str, str] | None = None
    """The parts of the reference and of the answer that differ; None if these are the whole."""


def explain(completion: str, reference: str | Sequence[str], prompt: str | None, options: Options) -> Explanation:
    """A grader with the arguments of ``math_reward.grader.grade``. Never raises because of what the texts contain."""
    found = grade(completion, reference, prompt, options)
    rule, difference = _why(found, options)
    return Explanation(
        **{field.name: getattr(found, field.name) for field in fields(Grade)},
        answer_mathml=None if found.answer is None else _drawn(parse, found.answer),
        reference_mathml=_drawn(parsed_reference, found.reference),
        rule=rule,
        difference_mathml=difference,
    )


def _why(found: Grade, options: Options) -> tuple[str | None, tuple[str, str] | None]:
    """The rule that decided and the first parts that differ, for a grade whose two sides were compared as trees."""
    if found.answer is None or found.stage in (None, Stage.STRING):
        return None, None
    if logic := _why_logic(found):
        return logic, None
    comparison = Comparison(options, RULES)
    try:
        sides = parsed_reference(found.reference), parse(found.answer)
        comparison.same(*sides)
    except (ArithmeticError, ValueError, RecursionError, MemoryError):
        return None, None
    rule = None if comparison.rule is None else comparison.rule.sentence.replace("``", "")
    parts = comparison.difference
    if found.correct or parts is None:
        return rule, None
    place = where_they_differ(*parts) if symbols(parts[0]) | symbols(parts[1]) else None
    if rule is not None and place is not None:
        point, value, other = place
        at = ", ".join(f"{name.removeprefix(BACKSLASH)} = {number:g}" for name, number in point.items())
        rule = f"{rule} At {at} the reference is {value:.6g} and the answer {other:.6g}."
    return rule, None if parts == sides else (to_mathml(parts[0]), to_mathml(parts[1]))


def _why_logic(found: Grade) -> str | None:
    """A sentence on the line of the truth tables where two propositions differ; None if the reference is not one."""
    reference, answer = proposition(found.reference), proposition(found.answer or "")
    if reference is None or not reference.compound:
        return None
    sentence = "Propositions are the same where their truth tables are."
    line = None if answer is None else line_that_differs(reference, answer)
    if found.correct or answer is None or line is None:
        return sentence
    where = ", ".join(f"{name} is {'true' if value else 'false'}" for name, value in line.items())
    truth = ("true", "false") if reference.holds(line) else ("false", "true")
    return f"{sentence} Where {where}, the reference is {truth[0]} and the answer {truth[1]}."


def _drawn(read: Callable[[str], Node], text: str) -> str | None:
    try:
        return to_mathml(read(text))
    except (NotMathematics, TooComplex, RecursionError, MemoryError):
        return None
