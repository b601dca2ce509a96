"""Math-Verify as a grader for a pool of workers: whole completions, as its own users grade them.

A worker process imports this before its first item, so that the import counts in no deadline. Math-Verify's time
limits are off: they are signal handlers in Python, which cannot interrupt C code. The pool ends what hangs.
"""

from collections.abc import Sequence

from math_verify import parse, verify

from math_reward.grader import Grade, Options, Verdict
from math_reward.grader.extraction.prompt import cut_prompt


def math_verify_grade(completion: str, reference: str | Sequence[str], prompt: str | None, options: Options) -> Grade:
    """``verify(parse(reference), parse(completion))``, with the arguments of ``math_reward.grader.grade``.

    The options are ours alone. Of several references any one may match.
    """
    references = (reference,) if isinstance(reference, str) else tuple(reference)
    if prompt is not None:
        completion = cut_prompt(completion, prompt) or completion
    answer = parse(completion, parsing_timeout=None)
    shown = answer[-1] if answer and isinstance(answer[-1], str) else None
    for one in references:
        if verify(parse(f"${one}$", parsing_timeout=None), answer, timeout_seconds=None):
            return Grade(Verdict.CORRECT, shown, one)
    return Grade(Verdict.WRONG, shown, references[0] if references else "")
