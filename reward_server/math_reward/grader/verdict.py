"""What the grader says about one completion."""

from dataclasses import dataclass
from enum import Enum


class Verdict(str, Enum):
    """The outcome of grading one completion; only ``correct`` is paid."""

    CORRECT = "correct"
    """The completion's final answer equals the reference answer."""

    WRONG = "wrong"
    """The completion has a final answer, and it is another one."""

    NO_ANSWER = "no_answer"
    """No final answer could be found in the completion."""

    BAD_REFERENCE = "bad_reference"
    """The reference answer is empty, too long or not mathematics: mend the data; the completion was not judged."""

    PROMPT_NOT_FOUND = "prompt_not_found"
    """The prompt could not be found in the text, so it is unknown where the completion begins: nothing was judged."""

    TOO_COMPLEX = "too_complex"
    """The answer is beyond the limits on length, nesting or digits, or takes too much memory or recursion."""

    TIMEOUT = "timeout"
    """Grading did not end within the deadline."""

    ERROR = "error"
    """The grader itself failed; ``detail`` says how."""


@dataclass(frozen=True)
class Grade:
    """The verdict on one completion and what it rests on."""

    verdict: Verdict
    answer: str | None
    """The answer as the completion has it, or None where none was found or none was looked for."""
    reference: str
    """The reference answer as it was given."""
    detail: str | None = None
    """One sentence that says why, where the verdict alone does not."""

    @property
    def correct(self) -> bool:
        return self.verdict is Verdict.CORRECT

    @property
    def reward(self) -> float:
        """1.0 for a correct completion and 0.0 for every other verdict."""
        return 1.0 if self.correct else 0.0
