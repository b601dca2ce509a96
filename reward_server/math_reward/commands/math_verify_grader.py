"""Math-Verify as a grader for a pool of workers: whole completions, as its own users grade them.

A worker process imports this before its first item, so that no item's deadline pays for the import. Math-Verify's time
limits are off: they are signal handlers in Python, which cannot interrupt C code. The pool ends what hangs.
"""

import logging
from collections.abc import Sequence

from math_verify import parse, verify

from math_reward.grader import Grade, Options, Verdict
from math_reward.grader.extraction.prompt import cut_prompt

HEAD_START_SECONDS = 1.0
"""CPU time for an ordinary row, many times what it needs: a worker that is replaced imports Math-Verify anew."""

DEADLINE_SECONDS = 15.0
"""The sum of Math-Verify's own limits: 5 s for each of the two texts, and 5 s to compare them."""

SHOWN_CHARACTERS = 200
"""How much of an exception's message a grade has."""


class _Caught(logging.Handler):
    """Keeps the last exception that Math-Verify caught: it logs it, and finds the two answers unequal."""

    last: BaseException | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.last = record.exc_info[1]


_caught = _Caught()
_logger = logging.getLogger("math_verify")
_logger.addHandler(_caught)
_logger.setLevel(logging.DEBUG)
_logger.propagate = False


def math_verify_grade(completion: str, reference: str | Sequence[str], prompt: str | None, options: Options) -> Grade:
    """``verify(parse(reference), parse(completion))``, with the arguments of ``math_reward.grader.grade``.

    The verdict is ``correct``, ``wrong``, or ``error`` where an exception is the reason why it is not correct. The
    options are ours alone. Of several references any one may match.
    """
    references = (reference,) if isinstance(reference, str) else tuple(reference)
    if prompt is not None:
        completion = cut_prompt(completion, prompt) or completion
    _caught.last = None
    extracted: str | None = None
    try:
        answer = parse(completion, parsing_timeout=None)
        if answer and isinstance(answer[-1], str):
            extracted = answer[-1]
        for one in references:
            if verify(parse(f"${one}$", parsing_timeout=None), answer, timeout_seconds=None):
                return Grade(Verdict.CORRECT, extracted, one)
    except Exception as error:
        _caught.last = error
    first = references[0] if references else ""
    if _caught.last is not None:
        said = f"{type(_caught.last).__name__}: {_caught.last}"[:SHOWN_CHARACTERS]
        return Grade(Verdict.ERROR, extracted, first, said)
    return Grade(Verdict.WRONG, extracted, first)


# What is slow only once is slow here: the first row of a worker is a row like any other.
math_verify_grade(r"So it is $\boxed{\frac{1}{2}}$.", "x^2+1", None, Options())
