"""From a completion and a reference answer to a verdict."""

import contextlib
import dataclasses
import functools
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from math_reward.grader.asked_form import missing_form
from math_reward.grader.calculation import by_result
from math_reward.grader.choices import by_choice
from math_reward.grader.compared import compared
from math_reward.grader.errors import NotMathematics, TooComplex
from math_reward.grader.extraction.around import changed
from math_reward.grader.extraction.completion import Document
from math_reward.grader.extraction.denials import denied_inside, denied_later, taken_back
from math_reward.grader.extraction.statement import END_CHARACTERS, Statement, later_answer
from math_reward.grader.memory import Memory
from math_reward.grader.notation.parse import MAX_CHARACTERS
from math_reward.grader.parts import graded_in_parts
from math_reward.grader.reading import ANSWERS, REFERENCES, Answer, Reference
from math_reward.grader.restated import PROMPT_CHARACTERS, restates
from math_reward.grader.rules.chains import contradiction
from math_reward.grader.rules.families import asked_for
from math_reward.grader.verdict import Grade, Mode, Options, Stage, Verdict
from math_reward.grader.words.continental import with_points
from math_reward.grader.words.truth import SAID, first_truth, is_doubted, stated_truth, truth
from math_reward.grader.words.unit_expressions import with_units
from math_reward.json_lines import NoAnswer, label_text

CACHED_VERDICTS = 16_384
CACHED_VERDICT_BYTES = 64 * 2**20
# "0.00 equals 0.01 dollars" contradicts itself as it does without the unit.
_UNIT_AT_END = re.compile(r"(?<=[\d$)])\s[a-zA-Z]{1,16}(?:[/·* ][a-zA-Z]{1,16}(?:\^?-?\d)?){0,4}\Z")
_DIRECTIONS = frozenset("\u202d\u202e\u2066\u2067\u2068")
SHOWN_CHARACTERS = 200
"""How much of an answer a grade shows if the answer is too long."""
_INDEFINITE = re.compile(
    r"\b(?:integral|antiderivative|integrate|primitive)\b|\\int(?![a-z])|∫|不定积分|原函数", re.IGNORECASE
)
_CONSTANT_AT_END = re.compile(
    r"\s?\+\s?(?:[CcK](?:_\d)?|\\(?:text|mathrm)\s?\{\s?[Cc](?:onst(?:ant)?\.?)?\s?\})"
    r"(?:, [CcK] \\in \\mathbb\{R\})?[\s.$]*\Z"
)


def grade(
    completion: str,
    reference: str | float | Sequence[str | float],
    prompt: str | None = None,
    options: Options = Options(),  # noqa: B008 (immutable)
) -> Grade:
    r"""Grades one completion.

    Args:
        completion: what the model wrote. With ``prompt``, the prompt and what the model wrote, in one text.
        reference: the reference answer as a number or as text: ``3/4``, ``\frac{3}{4}``, ``$x^2+1$``, ``(1,2)``, a
            text with a ``\boxed{...}``, or a solution that ends with ``#### 42``. Of several, any one counts.
        prompt: cut off the completion first; where it cannot be found the verdict is ``prompt_not_found``.
        options: where the answer may stand, and how close two numbers must be.

    Never raises because of what the texts contain. Takes milliseconds, but has no deadline: an expression that only
    SymPy can decide may take minutes, and a hostile one for ever. ``math_reward.pool.grader.Grader`` has one.
    """
    references = _texts(reference)
    first = references[0] if references else ""
    if not isinstance(completion, str):
        return Grade(
            Verdict.ERROR, None, first, f"The completion must be text, but is of type {type(completion).__name__}."
        )
    try:
        return _grade(completion, references, prompt, options)
    except (RecursionError, MemoryError) as error:
        return Grade(Verdict.TOO_COMPLEX, None, first, f"Grading stopped with {type(error).__name__}.")
    except Exception as error:
        return Grade(Verdict.ERROR, None, first, f"The grader failed with {type(error).__name__}: {error}")


def _texts(reference: object) -> list[str]:
    """Reference answers as texts, without those that are neither text nor a number (None, a dictionary)."""
    items = reference if isinstance(reference, (list, tuple)) else [reference]
    texts = []
    for item in items:
        with contextlib.suppress(NoAnswer):
            texts.append(label_text(item))
    return texts


def forget() -> None:
    """Empties the caches, as before the first item."""
    for cache in (_verdicts, REFERENCES, ANSWERS):
        cache.clear()


_verdicts: Memory[Grade] = Memory(CACHED_VERDICTS, CACHED_VERDICT_BYTES)


def _compared(reference: Reference, answer: str, options: Options, parameters: frozenset[str] = frozenset()) -> Grade:
    return _verdicts.get(
        (reference.given, answer, options, parameters),
        lambda: compared(reference, Answer.read(answer), options, parameters),
        reference.given,
        answer,
    )


def _grade(completion: str, references: list[str], prompt: str | None, options: Options) -> Grade:
    read = list(map(Reference.read, references))
    usable = [reference for reference in read if reference.fault is None]
    if not usable:
        detail = f"The reference answer cannot be used: {read[0].fault if read else 'there is none'}."
        return Grade(Verdict.BAD_REFERENCE, None, references[0] if references else "", detail)

    first, document = usable[0].given, Document.read(completion, prompt)
    if document is None:
        detail = "Neither the prompt nor its end occurs in the completion."
        return Grade(Verdict.PROMPT_NOT_FOUND, None, first, detail)
    if document.is_thought:
        return Grade(Verdict.NO_ANSWER, None, first, "The completion ends in its thought, or with it.")

    said = document.stated(options.mode)
    if options.mode is Mode.LENIENT and (said is None or not said.boxed):
        by_truth = _by_truth(document, said, usable)
        if by_truth is not None:
            return by_truth
    if said is None or (said.boxed and document.quotes_its_box):
        is_cut_off = said is None and document.is_cut_off
        return Grade(Verdict.NO_ANSWER, None, first, "The last box is not closed." if is_cut_off else None)
    said = document.asked(said)
    graded = _graded(said, usable, prompt, options)
    compare = functools.partial(_compared, options=options)
    if graded.verdict in (Verdict.WRONG, Verdict.AMBIGUOUS) and graded.stage is not None:
        denied = graded.verdict is Verdict.AMBIGUOUS
        results = (by_result(said.text, reference, options, compare, contradicts=denied) for reference in usable)
        graded = next((result for result in results if result is not None), graded)
    if graded.verdict is Verdict.WRONG:
        parts = graded_in_parts(document, said, usable, compare, options)
        if parts is not None:
            return parts
    if graded.correct and (later := later_answer(said)) is not None:
        rounded = dataclasses.replace(options, allow_rounded=True)
        other = _graded(Statement(later, boxed=False), usable, prompt, rounded)
        if other.verdict is Verdict.WRONG and other.stage is not Stage.STRING:
            detail = "The text after the box states another answer."
            graded = dataclasses.replace(graded, verdict=Verdict.AMBIGUOUS, detail=detail)
    return dataclasses.replace(graded, span=document.span_of(said, completion))


def _by_truth(document: Document, said: Statement | None, references: list[Reference]) -> Grade | None:
    """The grade of a text that answers a question whose reference is yes or no; None if its answer is such a word."""
    known = next((reference for reference in references if truth(reference.text) is not None), None)
    if known is None or len(known.text.strip()) == 1:
        return None
    word, text = None if said is None else truth(said.text), document.visible[-END_CHARACTERS:]
    stated = word if document.is_announced or word is not None else stated_truth(text)
    said_of_it, concluded = document.truths
    if stated is None and not SAID.search(text) and not is_doubted(text):
        stated = concluded
    if stated is None:
        return None
    answer = "yes" if stated else "no"
    if said_of_it is not None and said_of_it != stated:
        return Grade(Verdict.AMBIGUOUS, answer, known.given, "The text says yes and no.", Stage.STRING)
    if word is not None:
        return None
    verdict = Verdict.CORRECT if stated == truth(known.text) else Verdict.WRONG
    return Grade(verdict, answer, known.given, None, Stage.STRING)


def _graded(said: Statement, usable: list[Reference], prompt: str | None, options: Options) -> Grade:
    """The grade of an answer that was found."""
    first = usable[0].given
    refused = _refused(said, first)
    if refused is not None:
        return refused
    denial = denied_inside(said.text)
    if denial is not None and False in (truth(said.text), first_truth(said.text)):
        denial = None  # It belongs to the answer: "No, it is wrong."
    if denial is not None and not any(denial in reference.given for reference in usable):
        detail = "The words in the answer deny it."
        return Grade(Verdict.AMBIGUOUS, _shown(said.text), first, detail, Stage.STRING)
    if (chosen := by_choice(said, usable, prompt, functools.partial(_compared, options=options))) is not None:
        return chosen
    best: Grade | None = None
    for reference in usable:
        graded = _compared(reference, said.text, options)
        for chance in SECOND_CHANCES:
            if not graded.correct:
                graded = chance.read(said, reference, prompt, options) or graded
        if graded.correct:
            undone = None if prompt is None else _not_done(Answer.read(said.text), reference, prompt)
            if undone is None:
                return graded
            graded = dataclasses.replace(graded, verdict=Verdict.RESTATED, detail=undone)
        best = best or graded
    assert best is not None
    return best


def _with_parameters(said: Statement, reference: Reference, prompt: str | None, options: Options) -> Grade | None:
    """The grade where the prompt makes letters of the reference arbitrary."""
    if prompt is None or reference.is_integer:
        return None
    parameters = asked_for(reference.reading.tree, prompt[-PROMPT_CHARACTERS:])
    return _compared(reference, said.text, options, parameters) if parameters else None


def _with_units_of(said: Statement, reference: Reference, prompt: str | None, options: Options) -> Grade | None:
    """The grade of a correct answer whose letters are units because the prompt names what they measure."""
    if prompt is None or len(said.text) > MAX_CHARACTERS:
        return None
    prompt = prompt[-PROMPT_CHARACTERS:].lower()
    normal = Answer.read(said.text).normal
    text, expected = with_units(normal, prompt), with_units(reference.normal, prompt)
    if (text, expected) == (normal, reference.normal):
        return None
    named = Reference.read(expected)
    graded = None if named.fault else _compared(named, text, options)
    if graded is None or not graded.correct:
        return None
    return dataclasses.replace(graded, answer=said.text, reference=reference.given)


def _without_constant(said: Statement, reference: Reference, prompt: str | None, options: Options) -> Grade | None:
    """The grade of a correct answer with the constant of an integral that the reference leaves out."""
    if prompt is None or not _INDEFINITE.search(prompt[-PROMPT_CHARACTERS:]):
        return None
    without = _CONSTANT_AT_END.sub("", said.text)
    if without == said.text or _CONSTANT_AT_END.search(reference.text):
        return None
    return _if_correct(reference, without, said, options)


def _with_points(said: Statement, reference: Reference, prompt: str | None, options: Options) -> Grade | None:
    """The grade of a correct answer that writes 18.000 for 18000, as its text or prompt does."""
    around = f"{said.before[-END_CHARACTERS:]} {said.text} {said.after[:SHOWN_CHARACTERS]}"
    points = with_points(said.text, around if said.boxed or prompt is None else f"{prompt} {around}")
    return _if_correct(reference, points, said, options) if points != said.text else None


def _if_correct(reference: Reference, text: str, said: Statement, options: Options) -> Grade | None:
    graded = _compared(reference, text, options)
    return dataclasses.replace(graded, answer=said.text) if graded.correct else None


class Chance(NamedTuple):
    """How an answer is read once more that is not equal to the reference as it is written."""

    about: str
    read: Callable[[Statement, Reference, str | None, Options], Grade | None]
    example: tuple[str, str, str]
    """A prompt, a reference and a completion that is correct only so."""


SECOND_CHANCES = (
    Chance(
        "letters that the prompt makes arbitrary",
        _with_parameters,
        ("Find all solutions of the equation $y'=y$. ", "y = c e^x", r"\boxed{y = k e^x}"),
    ),
    Chance(
        "units that the prompt names",
        _with_units_of,
        ("What is the current in amperes? ", "4.2", r"\boxed{4.2 A}"),
    ),
    Chance(
        "the constant of an integral",
        _without_constant,
        (r"Find the integral $\int 2x\,dx$. ", "x^2", r"\boxed{x^2+C}"),
    ),
    Chance(
        "18.000 as 18000",
        _with_points,
        ("Wie groß ist die Fläche? ", "1500", "62,5 · 24 = 1.500. Die Fläche beträgt 1.500 m²."),
    ),
)


def _not_done(answer: Answer, reference: Reference, prompt: str) -> str | None:
    """What a correct answer leaves undone of what the prompt asks for, as a sentence; None if it does all."""
    if restates(answer, reference, prompt):
        return "The answer repeats an operation of the prompt and does not calculate it."
    try:
        form = missing_form(answer.reading.tree, reference.reading.tree, prompt)
    except (NotMathematics, TooComplex):
        return None  # Words, which are equal as they are.
    return form and f"The prompt asks for another form, which the reference has: {form}."


def _refused(said: Statement, reference: str) -> Grade | None:
    """The grade of what is no one answer, or too long to be compared; else None."""
    bare = said.text if said.boxed else _UNIT_AT_END.sub("", said.text)
    false = contradiction(said.before, bare, said.text[len(bare) :] + said.after)
    if false:
        detail = "The answer contradicts itself: it equates two different things."
        return Grade(Verdict.AMBIGUOUS, _shown(false), reference, detail, Stage.EXACT)
    if said.boxed and changed(said):
        detail = "An operation outside the box changes the answer in it."
        return Grade(Verdict.AMBIGUOUS, _shown(said.text), reference, detail, Stage.STRING)
    if taken_back(said) if said.boxed else denied_later(said):
        detail = "The words around the answer deny it."
        return Grade(Verdict.AMBIGUOUS, _shown(said.text), reference, detail, Stage.STRING)
    if said.alternatives:
        detail = "The completion offers several boxes as alternatives."
        return Grade(Verdict.AMBIGUOUS, _shown(said.text), reference, detail, Stage.STRING)
    if _DIRECTIONS.intersection(said.text):
        detail = "Marks of direction make the answer look like another one."
        return Grade(Verdict.AMBIGUOUS, _shown(said.text), reference, detail, Stage.STRING)
    if len(said.text) > MAX_CHARACTERS:
        detail = f"it has {len(said.text):,} characters, and {MAX_CHARACTERS:,} are allowed"
        return Grade(Verdict.TOO_COMPLEX, _shown(said.text), reference, f"The answer was not parsed: {detail}.")
    return None


def _shown(answer: str) -> str:
    return answer if len(answer) <= MAX_CHARACTERS else answer[:SHOWN_CHARACTERS]
