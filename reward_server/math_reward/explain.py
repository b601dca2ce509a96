"""Grades a completion and shows how both sides were read; runs in a worker, as all that parses foreign text does."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

from math_reward.grader import Grade, Options, Stage, grade
from math_reward.grader.compare import Comparison
from math_reward.grader.grading import parsed_reference
from math_reward.grader.mathml import to_mathml
from math_reward.grader.parse import parse
from math_reward.grader.syntax import Node
from math_reward.grader.tokens import NotMathematics, TooComplex


@dataclass(frozen=True)
class Explanation(Grade):
    """A grade with both sides as they were parsed."""

    answer_mathml: str | None = None
    """A ``<math>`` element; None where there is no answer or it is no mathematics."""
    reference_mathml: str | None = None
    """A ``<math>`` element; None where the reference is no mathematics."""
    rule: str | None = None
    """What the rule says that decided; None where the two were not compared as trees."""
    difference_mathml: tuple[str, str] | None = None
    """The part of the reference and that of the answer that were found to differ; None where they are the whole."""


def explain(completion: str, reference: str | Sequence[str], prompt: str | None, options: Options) -> Explanation:
    """A grader, see ``math_reward.grader.grade`` for the arguments. Never raises on account of what the texts say."""
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
    """The rule that decided, and the first parts that differ, of a grade whose two sides were compared as trees."""
    if found.answer is None or found.stage in (None, Stage.STRING, Stage.MATH_VERIFY):
        return None, None
    comparison = Comparison(options)
    try:
        sides = parsed_reference(found.reference), parse(found.answer)
        comparison.same(*sides)
    except (ArithmeticError, ValueError, RecursionError, MemoryError):
        return None, None
    rule = None if comparison.rule is None else comparison.rule.sentence.replace("``", "")
    parts = comparison.difference
    if found.correct or parts is None or parts == sides:
        return rule, None
    return rule, (to_mathml(parts[0]), to_mathml(parts[1]))


def _drawn(read: Callable[[str], Node], text: str) -> str | None:
    try:
        return to_mathml(read(text))
    except (NotMathematics, TooComplex, RecursionError, MemoryError):
        return None
