"""Grades a completion and shows how both sides were read; runs in a worker, as all that parses foreign text does."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

from math_reward.grader import Grade, Options, grade
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


def explain(completion: str, reference: str | Sequence[str], prompt: str | None, options: Options) -> Explanation:
    """A grader, see ``math_reward.grader.grade`` for the arguments. Never raises on account of what the texts say."""
    found = grade(completion, reference, prompt, options)
    return Explanation(
        **{field.name: getattr(found, field.name) for field in fields(Grade)},
        answer_mathml=None if found.answer is None else _drawn(parse, found.answer),
        reference_mathml=_drawn(parsed_reference, found.reference),
    )


def _drawn(read: Callable[[str], Node], text: str) -> str | None:
    try:
        return to_mathml(read(text))
    except (NotMathematics, TooComplex, RecursionError, MemoryError):
        return None
