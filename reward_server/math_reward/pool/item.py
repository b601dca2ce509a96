"""The items that a worker process receives, and the grades that it sends back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from math_reward.grader import Grade, Options

GradeFunction = Callable[[str, "str | Sequence[str]", "str | None", Options], Grade]
"""``(completion, reference, prompt, options) -> Grade``, importable by name in another process."""


DEFAULT_OPTIONS = Options()


@dataclass(frozen=True)
class Item:
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


@dataclass(frozen=True)
class Graded:
    """A grade and the time that it took."""

    grade: Grade
    seconds: float
    """Time in the worker, without the queue."""

    def as_dict(self) -> dict[str, Any]:
        """The result as JSON: the same in every answer of ``/v1/grade`` and in every file."""
        return {**self.grade.as_dict(), "seconds": round(self.seconds, 6)}
