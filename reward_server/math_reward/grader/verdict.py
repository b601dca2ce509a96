"""What the grader says about one completion."""

from dataclasses import dataclass
from enum import Enum
from typing import Any


class Verdict(str, Enum):
    """The outcome of grading one completion; only ``correct`` is paid."""

    CORRECT = "correct"
    """The completion's final answer equals the reference answer."""

    WRONG = "wrong"
    """The completion has a final answer, and it is another one."""

    NO_ANSWER = "no_answer"
    """No final answer could be found in the completion."""

    AMBIGUOUS = "ambiguous"
    """The completion offers several answers for choice, or contradicts itself; not paid, even where one is right."""

    RESTATED = "restated"
    """The answer is an operation that stands in the prompt as it is: the question, and not an answer to it."""

    UNEVALUATED = "unevaluated"
    """The answer leaves a sum, a product, an integral, a limit, a derivative or a matrix operation undone that the
    reference does not have; or, where `Options.evaluated` asks for it, it is no number in lowest terms."""

    BAD_REFERENCE = "bad_reference"
    """The reference answer is empty, too long or not mathematics: fix the data; the completion was not judged."""

    PROMPT_NOT_FOUND = "prompt_not_found"
    """The prompt could not be found in the text, so it is unknown where the completion begins: nothing was judged."""

    TOO_COMPLEX = "too_complex"
    """The answer is beyond the limits on length, nesting or digits, or takes too much memory or recursion."""

    TIMEOUT = "timeout"
    """Grading did not end within the deadline."""

    ERROR = "error"
    """The grader itself failed; ``detail`` says how."""


class Stage(str, Enum):
    """The stage of the comparison that decided; the stages come in this order, cheapest first."""

    STRING = "string"
    """The two texts, normalised."""

    EXACT = "exact"
    """Two exact rationals."""

    STRUCTURE = "structure"
    """Two syntax trees: lists, tuples, intervals, matrices, equations and the like."""

    NUMERIC = "numeric"
    """Two expressions, by their values at a few points."""

    SYMPY = "sympy"
    """Two expressions, by SymPy."""

    MATH_VERIFY = "math_verify"
    """Two texts, by Math-Verify."""


class Mode(str, Enum):
    """Where the final answer of a completion may stand."""

    STRICT = "strict"
    r"""In a ``\boxed{...}`` or ``\fbox{...}`` alone."""

    LENIENT = "lenient"
    """Also after a phrase such as "the answer is", else it is the last formula or number."""


@dataclass(frozen=True)
class Options:
    """How to grade a completion."""

    mode: Mode = Mode.LENIENT
    rel_tol: float = 0.0
    """Two numbers whose difference is at most this fraction of the reference are equal."""
    allow_rounded: bool = False
    """An answer that is the reference, rounded, is correct."""
    allow_unevaluated: bool = False
    """A sum, an integral or another operation that is left undone counts as what it comes to."""
    evaluated: bool = False
    """Where the reference is a number, the answer has to be a number in lowest terms."""
    math_verify: bool = False
    """Ask Math-Verify, if it is installed, about what the other stages cannot read or decide."""


@dataclass(frozen=True)
class Grade:
    """The verdict on one completion and what it rests on."""

    verdict: Verdict
    answer: str | None
    """The answer as the completion has it, or None where none was found or none was looked for."""
    reference: str
    """The reference answer as it was given; of several the one that matched, else the first."""
    detail: str | None = None
    """One sentence that says why, where the verdict alone does not."""
    stage: Stage | None = None
    """What decided; None where nothing was compared."""

    def as_dict(self) -> dict[str, Any]:
        """The grade for JSON: the one way in which it leaves the grader."""
        return {
            "verdict": self.verdict.value,
            "answer": self.answer,
            "reference": self.reference,
            "reward": self.reward,
            "correct": self.correct,
            "stage": None if self.stage is None else self.stage.value,
            "detail": self.detail,
        }

    @property
    def correct(self) -> bool:
        return self.verdict is Verdict.CORRECT

    @property
    def reward(self) -> float:
        """1.0 for a correct completion and 0.0 for every other verdict."""
        return 1.0 if self.correct else 0.0
