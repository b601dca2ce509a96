"""What a worker process gets and what it gives back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from math_reward.grader import Grade, Options

Grader = Callable[[str, "str | Sequence[str]", "str | None", Options], Grade]
"""``(completion, reference, prompt, options) -> Grade``, importable by name in another process."""


DEFAULT_OPTIONS = Options()


@dataclass(frozen=True)
class Item:
    """One completion to grade; see ``math_reward.grader.grade`` for the first four."""

    completion: str
    reference: str | tuple[str, ...]
    """The reference answer; of several any one counts."""
    prompt: str | None = None
    options: Options = DEFAULT_OPTIONS
    prompt_may_be_absent: bool = False
    """The prompt is cut off a completion that begins with it, and a completion without it is graded as it is."""

    @property
    def first_reference(self) -> str:
        return self.reference if isinstance(self.reference, str) else self.reference[0]


@dataclass(frozen=True)
class Graded:
    """A grade and what it took."""

    grade: Grade
    seconds: float
    """Time in the worker, the queue not counted."""
