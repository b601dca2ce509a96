"""The grader's result for one completion: its verdict, the stage that decided, and the options."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Verdict(str, Enum):
    """The outcome of grading one completion; only ``correct`` is rewarded."""

    CORRECT = "correct"
    """The completion's final answer equals the reference answer."""

    WRONG = "wrong"
    """The final answer is not the reference answer."""

    NO_ANSWER = "no_answer"
    """No final answer could be found in the completion."""

    AMBIGUOUS = "ambiguous"
    """The completion offers several answers or contradicts itself. It is not rewarded even if one of them is right."""

    RESTATED = "restated"
    """The answer repeats an operation of the prompt without calculating it, or lacks the form that the prompt asks
    for: it restates the question."""

    UNEVALUATED = "unevaluated"
    """The answer leaves a sum, a product, an integral, a limit, a derivative or a matrix operation undone that the
    reference does not have; or `Options.evaluated` is set and it is not a number in lowest terms."""

    BAD_REFERENCE = "bad_reference"
    """The reference answer is empty, too long or not mathematics: fix the data. The completion was not judged."""

    PROMPT_NOT_FOUND = "prompt_not_found"
    """The prompt is not in the text, so nobody knows where the completion begins. Nothing was judged."""

    TOO_COMPLEX = "too_complex"
    """The answer exceeds a limit on length, nesting or digits, or needs too much memory or recursion."""

    TIMEOUT = "timeout"
    """Grading did not end within the deadline."""

    ERROR = "error"
    """The grader itself failed; ``detail`` says how."""

    @property
    def is_judgement(self) -> bool:
        """Whether it says anything about the answer; if not, a reward of 0 would be the data's fault, or ours."""
        return self not in (Verdict.BAD_REFERENCE, Verdict.ERROR)


class Stage(str, Enum):
    """The stage of the comparison that decided. The stages run in this order, the cheapest first."""

    STRING = "string"
    """Compares the two normalised texts."""

    EXACT = "exact"
    """Compares two exact rational numbers."""

    STRUCTURE = "structure"
    """Compares two syntax trees: lists, tuples, intervals, matrices, equations and the like."""

    NUMERIC = "numeric"
    """Compares two expressions by their values at a few points."""

    SYMPY = "sympy"
    """Asks SymPy about two expressions."""


class Mode(str, Enum):
    """Where the final answer of a completion may be."""

    STRICT = "strict"
    r"""Only in a ``\boxed{...}`` or ``\fbox{...}``."""

    LENIENT = "lenient"
    """Also after a phrase such as "the answer is", or as the last formula or number."""


@dataclass(frozen=True)
class Options:
    """How to grade a completion. Commands and the service show the ``help`` of each; a number is from 0 to 1."""

    mode: Mode = field(
        default=Mode.LENIENT,
        metadata={"help": "strict: only an answer in a box; lenient: also in prose (lenient)"},
    )
    rel_tol: float = field(
        default=0.0, metadata={"help": "numbers that differ by at most this fraction of the reference are equal (0)"}
    )
    allow_rounded: bool = field(
        default=False, metadata={"help": "accept an answer that is the reference, rounded to the answer's places"}
    )
    allow_unevaluated: bool = field(
        default=False,
        metadata={"help": "accept a sum, an integral or another operation that is left undone, by its value"},
    )
    evaluated: bool = field(
        default=False, metadata={"help": "if the reference is a number, accept only a number in lowest terms"}
    )

    def __post_init__(self) -> None:
        """Takes a mode by its name too.

        Raises:
            ValueError: there is no such mode.
        """
        try:
            object.__setattr__(self, "mode", Mode(self.mode))
        except ValueError:
            names = " or ".join(repr(mode.value) for mode in Mode)
            raise ValueError(f"mode must be {names}, not {self.mode!r}.") from None


@dataclass(frozen=True)
class Grade:
    """The verdict on one completion, and what it was based on."""

    verdict: Verdict
    answer: str | None
    """The answer as the completion has it; None if none was found, or none was looked for."""
    reference: str
    """The reference answer as it was given. Of several: the one that matched, else the first."""
    detail: str | None = None
    """One sentence that says why, if the verdict alone does not."""
    stage: Stage | None = None
    """The stage that decided; None if nothing was compared."""
    rule: str | None = field(default=None, compare=False)
    """The sentence of the rule that decided; None if no trees were compared."""
    difference: tuple[Any, Any] | None = field(default=None, compare=False, repr=False)
    """The first parts of the two trees that differ, innermost; not sent to other processes."""
    span: tuple[int, int] | None = field(default=None, compare=False)
    """Where the answer stands in the completion, first character and the one after its last; None if there is none,
    or it stands there in other words."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "difference": None}

    def as_dict(self) -> dict[str, Any]:
        """The grade as JSON: the same in every answer and file."""
        stage = None if self.stage is None else self.stage.value
        return as_json(self.verdict.value, self.answer, self.reference, self.detail, stage, self.span)

    @property
    def correct(self) -> bool:
        return self.verdict is Verdict.CORRECT

    @property
    def reward(self) -> float:
        """1.0 for a correct completion and 0.0 for every other verdict."""
        return 1.0 if self.correct else 0.0


def as_json(
    verdict: str,
    answer: str | None,
    reference: str,
    detail: str | None,
    stage: str | None,
    span: tuple[int, int] | None,
) -> dict[str, Any]:
    """A grade as JSON, from plain values."""
    correct = verdict == Verdict.CORRECT.value
    return {
        "verdict": verdict,
        "answer": answer,
        "reference": reference,
        "reward": 1.0 if correct else 0.0,
        "correct": correct,
        "stage": stage,
        "detail": detail,
        "span": None if span is None else list(span),
    }
