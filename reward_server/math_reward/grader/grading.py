"""From a completion and a reference answer to a verdict."""

from math_reward.grader.compare import Parsed, TooComplex, equal, parse_expression, parse_prose, plain
from math_reward.grader.extract import final_answer, last_boxed
from math_reward.grader.prompt import cut_prompt
from math_reward.grader.verdict import Grade, Verdict


class _BadReference(ValueError):
    """The reference is empty or not mathematics; the message is half a sentence that says so."""


def grade(completion: str, reference: str, prompt: str | None = None) -> Grade:
    r"""Grades one completion.

    Args:
        completion: what the model wrote. With ``prompt``, the prompt and what the model wrote, in one text.
        reference: the reference answer as text: ``3/4``, ``\frac{3}{4}``, ``$x^2+1$``, ``(1,2)``, a text with a
            ``\boxed{...}``, or a solution that ends with ``#### 42``.
        prompt: cut off the completion first; where it cannot be found the verdict is ``prompt_not_found``.

    Never raises on account of what the texts say. May take for ever, see ``math_reward.workers``.
    """
    try:
        return _grade(completion, reference, prompt)
    except (RecursionError, MemoryError) as error:
        return Grade(Verdict.TOO_COMPLEX, None, reference, f"Grading stopped with {type(error).__name__}.")
    except Exception as error:
        return Grade(Verdict.ERROR, None, reference, f"The grader failed with {type(error).__name__}: {error}")


def _grade(completion: str, reference: str, prompt: str | None) -> Grade:
    try:
        expected = _parse_reference(reference)
    except (_BadReference, TooComplex) as error:
        return Grade(Verdict.BAD_REFERENCE, None, reference, f"The reference answer cannot be used: {error}.")

    if prompt is not None:
        response = cut_prompt(completion, prompt)
        if response is None:
            detail = "Neither the prompt nor its end occurs in the completion."
            return Grade(Verdict.PROMPT_NOT_FOUND, None, reference, detail)
        completion = response

    answer = final_answer(completion)
    if answer is None:
        return Grade(Verdict.NO_ANSWER, None, reference)
    if not answer.boxed:
        given = parse_prose(answer.text)
        if given.extracted is None:
            return Grade(Verdict.NO_ANSWER, None, reference)
        return _compared(expected, given, given.extracted, reference)
    if plain(answer.text) == expected.text:
        return Grade(Verdict.CORRECT, answer.text, reference)
    try:
        given = parse_expression(answer.text)
    except TooComplex as error:
        return Grade(Verdict.TOO_COMPLEX, answer.text[:200], reference, f"The answer was not looked at: {error}.")
    return _compared(expected, given, answer.text, reference)


def _compared(expected: Parsed, given: Parsed, answer: str, reference: str) -> Grade:
    return Grade(Verdict.CORRECT if equal(expected, given) else Verdict.WRONG, answer, reference)


def _parse_reference(reference: str) -> Parsed:
    """Raises _BadReference or TooComplex."""
    boxed = last_boxed(reference)
    text = boxed if boxed is not None else reference.rpartition("####")[2]
    if not text.strip():
        raise _BadReference("it is empty")
    parsed = parse_expression(text)
    if not parsed.is_mathematics:
        raise _BadReference("it does not parse as a mathematical expression")
    return parsed
