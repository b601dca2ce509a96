"""The items that a worker process receives, and the grades that it sends back."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from math_reward.grader import Grade, Options, Stage, Verdict
from math_reward.grader.verdict import as_json

GradeFunction = Callable[[str, "str | Sequence[str]", "str | None", Options], Grade]
"""``(completion, reference, prompt, options) -> Grade``, importable by name in another process."""


DEFAULT_OPTIONS = Options()


class Item(NamedTuple):
    """One completion to grade; see ``math_reward.grader.grade`` for the first four."""

    completion: str
    reference: str | tuple[str, ...]
    """The reference answer, or several of which any one may match."""
    prompt: str | None = None
    options: Options = DEFAULT_OPTIONS
    prompt_may_be_absent: bool = False
    """Whether a completion that does not begin with the prompt is graded as it is, instead of ``prompt_not_found``."""

    @property
    def first_reference(self) -> str:
        return self.reference if isinstance(self.reference, str) else self.reference[0]


class Graded(NamedTuple):
    """A grade as plain values, and the time that it took. They come from another process, thousands a second."""

    verdict: str
    answer: str | None
    reference: str
    detail: str | None
    stage: str | None
    rule: str | None
    span: tuple[int, int] | None
    seconds: float
    """Time in the worker, without the queue."""

    @classmethod
    def of(cls, grade: Grade, seconds: float) -> "Graded":
        """``grade``, which took so long."""
        stage = None if grade.stage is None else grade.stage.value
        return cls(
            grade.verdict.value, grade.answer, grade.reference, grade.detail, stage, grade.rule, grade.span, seconds
        )

    @property
    def grade(self) -> Grade:
        """As the grader gave it, but for ``difference``."""
        stage = None if self.stage is None else Stage(self.stage)
        return Grade(Verdict(self.verdict), self.answer, self.reference, self.detail, stage, self.rule, span=self.span)

    def as_dict(self) -> dict[str, Any]:
        """The result as JSON: the same in every answer of ``/v1/grade`` and in every file."""
        result = as_json(self.verdict, self.answer, self.reference, self.detail, self.stage, self.span)
        result["seconds"] = round(self.seconds, 6)
        return result
