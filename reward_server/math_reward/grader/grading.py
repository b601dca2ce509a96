"""From a completion and a reference answer to a verdict."""

import contextlib
import dataclasses
import itertools
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from math_reward.grader.atoms import SHORT_WORDS
from math_reward.grader.calculus import differentiated
from math_reward.grader.calendar_dates import Date, date, same_date
from math_reward.grader.compare import Comparison
from math_reward.grader.declarations import Domain, compatible, read
from math_reward.grader.exact import Undefined, exact
from math_reward.grader.extract import Answer, final_answer, last_boxed
from math_reward.grader.normalise import compact, normalise
from math_reward.grader.parse import MAX_CHARACTERS, parse, parse_normalised
from math_reward.grader.prompt import cut_prompt, is_quoted_box, without_quote
from math_reward.grader.propositions import Proposition, equivalent, proposition
from math_reward.grader.rules import RULES
from math_reward.grader.rules.collections import mentions
from math_reward.grader.rules.families import same_family
from math_reward.grader.rules.labels import Contradiction
from math_reward.grader.rules.trees import substituted
from math_reward.grader.syntax import (
    Bracketed,
    Collection,
    Constant,
    Node,
    Number,
    Product,
    Symbol,
    Text,
    symbols,
    walk,
)
from math_reward.grader.texts import Wording, wording
from math_reward.grader.tokens import NotMathematics, TooComplex
from math_reward.grader.undone import in_lowest_terms, is_operation, undone
from math_reward.grader.verdict import Grade, Options, Stage, Verdict
from math_reward.json_lines import NoAnswer, label_text

__all__ = ["cache_info", "grade", "parsed_reference"]

CACHED_REFERENCES = 8_192
CACHED_VERDICTS = 16_384
SHOWN_CHARACTERS = 200
"""How much of an answer a grade shows if the answer is too long."""

_PROSE_REFERENCE = 80
"""A reference of more characters that says "answer is" is a solution, whose answer is looked for."""
_INTEGER = re.compile(r"-?\d{1,15}")
_GROUPED = re.compile(r"\d,\d{3}(?!\d)")
_DECIMAL_COMMA = re.compile(r"(-?\d+),(\d+)")
_CHOICE = re.compile(r"(?:\\text\w*\s?\{)?\s?(?:\(([A-J])\)|([A-J])\s?[.):])[}\s]{1,4}(\S.*)")
_ANOTHER_CHOICE = re.compile(r"\bor\b|\([A-J]\)")
_WHITE = re.compile(r"\s+")
_OPERATORS = tuple("=<>+-*/^_([{\\,0123456789.")
# No sentence has these: an operator at its end, no letter at all, a command without its argument.
_BROKEN = re.compile(r"[+*/^_=<>]\s*$|^[?!.\s]*$|\\(?:frac|sqrt|boxed|fbox)(?![a-zA-Z])")
# An answer without one of these leaves no operation undone, so its tree need not be searched.
_OPERATION = re.compile(r"sum|prod|int|lim|sup|matri|array|det|diag|tr|partial|d")
MAX_POINTS = 4
"""Capitals that may be the names of points: ABCD is not abcd."""
PROMPT_CHARACTERS = 20_000
"""How much of a prompt's end is searched for the answer."""
_NO_REFERENCE = frozenset(["none", "null", "nan", "n/a", "na"])


class _Reference(NamedTuple):
    """A reference that can be graded against."""

    text: str
    normal: str
    compact: str
    tree: Node
    wording: Wording | None = None
    """Its words, if it is a sentence."""
    domains: dict[str, Domain] | None = None
    """The ranges of its parameters."""
    proposition: Proposition | None = None
    """The reference as a formula of logic, if it has a connective."""
    day: Date | None = None
    """The reference as a date, if it is one."""


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

    Never raises because of what the texts contain. Takes milliseconds, but an expression that only SymPy can decide
    may take long: ``math_reward.pool.worker_pool`` sets a deadline.
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


def cache_info() -> dict[str, tuple[int, int]]:
    """Hits and misses of the caches of verdicts and of parsed references, since this process started."""
    caches = {"verdict": _compared, "reference": _parsed_reference}
    return {name: (cache.cache_info().hits, cache.cache_info().misses) for name, cache in caches.items()}


def parsed_reference(reference: str) -> Node:
    """The tree of a reference, to show how it was read. Raises NotMathematics or TooComplex."""
    parsed = _parsed_reference(reference)
    if isinstance(parsed, _Reference):
        return parsed.tree
    raise NotMathematics(parsed)


def _grade(completion: str, references: list[str], prompt: str | None, options: Options) -> Grade:
    usable: list[str] = []
    reasons: list[str] = []
    for reference in references:
        parsed = _parsed_reference(reference)
        if isinstance(parsed, _Reference):
            usable.append(reference)
        else:
            reasons.append(parsed)
    if not usable:
        detail = f"The reference answer cannot be used: {reasons[0] if reasons else 'there is none'}."
        return Grade(Verdict.BAD_REFERENCE, None, references[0] if references else "", detail)

    first = usable[0]
    if prompt is not None:
        response = cut_prompt(completion, prompt)
        if response is None:
            detail = "Neither the prompt nor its end occurs in the completion."
            return Grade(Verdict.PROMPT_NOT_FOUND, None, first, detail)
        completion = without_quote(response, prompt)

    answer = final_answer(completion, options.mode)
    if answer is None or (prompt is not None and answer.boxed and is_quoted_box(completion, prompt)):
        return Grade(Verdict.NO_ANSWER, None, first)
    best: Grade | None = None
    for reference in usable:
        graded = _judged(answer, reference, options)
        if graded.correct:
            if prompt is None or not _restates(answer.text, reference, prompt):
                return graded
            detail = "The answer repeats an operation of the prompt and does not calculate it."
            graded = dataclasses.replace(graded, verdict=Verdict.RESTATED, detail=detail)
        best = best or graded
    assert best is not None
    return best


def _judged(answer: Answer, reference: str, options: Options) -> Grade:
    if answer.alternatives:
        detail = "The completion offers several boxes as alternatives."
        return Grade(Verdict.AMBIGUOUS, _shown(answer.text), reference, detail, Stage.STRING)
    if answer.contradicts_itself:
        detail = "The answer contradicts itself: it equates two different things."
        return Grade(Verdict.AMBIGUOUS, _shown(answer.text), reference, detail, Stage.EXACT)
    if len(answer.text) > MAX_CHARACTERS:
        detail = f"it has {len(answer.text):,} characters, and {MAX_CHARACTERS:,} are allowed"
        return Grade(Verdict.TOO_COMPLEX, _shown(answer.text), reference, f"The answer was not parsed: {detail}.")
    return _compared(reference, answer.text, options)


def _shown(answer: str) -> str:
    return answer if len(answer) <= MAX_CHARACTERS else answer[:SHOWN_CHARACTERS]


def _restates(answer: str, reference: str, prompt: str) -> bool:
    """Whether a correct answer copies an operation from the prompt that the reference does not have."""
    expected = _parsed_reference(reference)
    normal = normalise(answer)
    text = _WHITE.sub("", normal)
    assert isinstance(expected, _Reference)
    if len(text) < 3 or text == _WHITE.sub("", expected.normal):
        return False
    question = _WHITE.sub("", normalise(prompt[-PROMPT_CHARACTERS:]))
    places = [found.start() for found in itertools.islice(re.finditer(re.escape(text), question), 20)]
    whole = any(
        question[place - 1 : place] not in _OPERATORS and question[place + len(text) :][:1] not in _OPERATORS
        for place in places
    )
    try:
        return whole and is_operation(parse_normalised(normal))
    except (NotMathematics, TooComplex):
        return False


@lru_cache(maxsize=CACHED_REFERENCES)
def _parsed_reference(reference: str) -> "_Reference | str":
    """The reference, or half a sentence that says why it cannot be used."""
    text = _reference_text(reference)
    if text is None or not text.strip():
        return "it is empty"
    if len(text) > MAX_CHARACTERS:
        return f"it has {len(text):,} characters, and {MAX_CHARACTERS:,} are allowed"
    if _INTEGER.fullmatch(text):
        return _Reference(text, text, text, parse(text))
    normal = normalise(text)
    if normal.lower() in _NO_REFERENCE:
        return f"it says {normal!r}"
    day, logic = date(text), proposition(text)
    if logic is not None and not logic.compound:
        logic = None
    try:
        tree, domains = read(normal)
        tree = differentiated(tree)
        return _Reference(text, normal, compact(normal), tree, _as_words(normal), domains, logic, day)
    except TooComplex as error:
        return str(error)
    except NotMathematics as error:
        said = wording(normal)
        if (said is None or _BROKEN.search(normal)) and logic is None and day is None:
            return str(error)
        return _Reference(text, normal, compact(normal), Text(normal.lower()), said, proposition=logic, day=day)


def _as_words(normal: str) -> Wording | None:
    """The words of a reference that is a sentence but can also be parsed as mathematics; None for a formula."""
    return wording(normal) if " " in normal and normal[:1].isalpha() and "\\" not in normal else None


def _reference_text(reference: str) -> str | None:
    boxed = last_boxed(reference)
    if boxed is not None:
        return boxed
    if "####" in reference:
        return reference.rpartition("####")[2]
    if len(reference) > _PROSE_REFERENCE and "answer" in reference.lower():
        answer = final_answer(reference)
        return None if answer is None or answer.contradicts_itself else answer.text
    return reference


@lru_cache(maxsize=CACHED_VERDICTS)
def _compared(reference: str, answer: str, options: Options) -> Grade:
    """Whether two answers are the same, and what decided it."""
    expected = _parsed_reference(reference)
    assert isinstance(expected, _Reference)

    def graded(verdict: Verdict, stage: Stage | None, detail: str | None = None) -> Grade:
        return Grade(verdict, answer, reference, detail, stage)

    if answer == expected.text and not options.evaluated:
        return graded(Verdict.CORRECT, Stage.STRING)
    if _INTEGER.fullmatch(answer) and _INTEGER.fullmatch(expected.text) and not options.rel_tol:
        same = int(answer) == int(expected.text)
        return graded(Verdict.CORRECT if same else Verdict.WRONG, Stage.EXACT)
    normal = normalise(answer)
    if not normal:
        return graded(Verdict.NO_ANSWER, None, "The box is empty.")
    special = _by_kind(expected, answer)
    if special is not None:
        return graded(Verdict.CORRECT if special else Verdict.WRONG, Stage.STRUCTURE)
    if compact(normal) == expected.compact and not options.evaluated:
        return graded(Verdict.CORRECT, Stage.STRING)
    comparison = Comparison(options, RULES)
    if expected.wording is not None and _same_words(comparison, expected.wording, normal):
        return graded(Verdict.CORRECT, Stage.STRING)
    try:
        tree, domains = read(normal)
    except TooComplex as error:
        return graded(Verdict.TOO_COMPLEX, None, f"The answer was not parsed: {error}.")
    except NotMathematics as error:
        if _is_choice(comparison, expected, normal):
            return graded(Verdict.CORRECT, Stage.STRUCTURE)
        return graded(Verdict.WRONG, Stage.STRING, f"The answer cannot be read: {error}.")
    if not options.allow_unevaluated and _OPERATION.search(normal) and undone(tree) - undone(expected.tree):
        return graded(Verdict.UNEVALUATED, Stage.STRUCTURE, "The answer leaves an operation undone.")
    if options.evaluated and _is_number(expected.tree) and not in_lowest_terms(tree):
        return graded(Verdict.UNEVALUATED, Stage.STRUCTURE, "The answer is not a number in lowest terms.")
    try:
        tree = _with_i(expected.tree, tree)
        if (same_word := _as_one_word(normal, expected.normal)) is not None and _is_word(tree, expected.tree):
            return graded(Verdict.CORRECT if same_word else Verdict.WRONG, Stage.STRING)
        if not compatible(expected.domains or {}, domains):
            return graded(Verdict.WRONG, Stage.STRUCTURE, "A parameter has a different range in the reference.")
        same = comparison.same(expected.tree, tree) or _is_choice(comparison, expected, normal)
        declared = bool(expected.domains or domains)
        same = same or same_family(comparison, expected.tree, tree, (expected.normal, normal), declared=declared)
        if same or _same_otherwise(comparison, expected, normal, tree):
            return graded(Verdict.CORRECT, comparison.stage)
        if mentions(comparison, expected.tree, tree):
            detail = "The answer has several values, of which the reference is one."
            return graded(Verdict.AMBIGUOUS, comparison.stage, detail)
    except TooComplex as error:
        return graded(Verdict.TOO_COMPLEX, None, f"The answer was not calculated: {error}.")
    except Undefined as error:
        return graded(Verdict.WRONG, comparison.stage, f"The answer has no value: {error}.")
    except Contradiction as error:
        return graded(Verdict.AMBIGUOUS, comparison.stage, f"The answer contradicts itself: {error}.")
    return graded(Verdict.WRONG, comparison.stage)


def _by_kind(expected: _Reference, answer: str) -> bool | None:
    """Whether two formulas of logic or two dates are the same; None if the reference is neither."""
    if expected.proposition is not None:
        said = proposition(answer)
        return said is not None and equivalent(expected.proposition, said)
    if expected.day is not None:
        day = date(answer)
        return day is not None and same_date(expected.day, day)
    return None


def _same_words(comparison: Comparison, expected: Wording, answer: str) -> bool:
    """Whether both have the same words in the same order, with the same mathematics between them."""
    said = wording(answer)
    if said is None or said.words != expected.words:
        return False
    try:
        return all(
            left == right or comparison.same(parse(left), parse(right))
            for left, right in zip(expected.between, said.between, strict=True)
        )
    except (NotMathematics, TooComplex, Undefined, Contradiction):
        return False


def _with_i(expected: Node, answer: Node) -> Node:
    """The answer with i for j, as engineers write ``3 + 4j``, if the reference has an i and no j."""
    if "j" not in symbols(answer) or "j" in symbols(expected):
        return answer
    return substituted(answer, "j", Constant("i")) if Constant("i") in walk(expected) else answer


def _as_one_word(answer: str, expected: str) -> bool | None:
    """Whether both are the same word: ``bob`` is ``Bob``, and ``god`` is not ``dog``, although as products of letters
    these are equal. None if they may be products, letters of choices or points.
    """
    if not (answer.isascii() and expected.isascii() and answer.isalpha() and expected.isalpha()):
        return None
    if min(len(answer), len(expected)) < 2 or set(answer + expected) <= set("ABCDEFGH"):
        return None  # Letters of choices have no order.
    if answer.lower() == expected.lower():
        if len(answer) == 2 and answer.lower() not in SHORT_WORDS:
            return None  # xY is not xy
        points = len(answer) <= MAX_POINTS and {answer, expected} == {answer.upper(), answer.lower()}
        return None if answer == expected else not points or answer.lower() in SHORT_WORDS
    return False if min(len(answer), len(expected)) > 2 else None


def _is_word(answer: Node, expected: Node) -> bool:
    """Whether both were parsed as words or products of letters, and not as functions or units."""
    return all(isinstance(tree, (Product, Text)) for tree in (answer, expected))


def _is_number(tree: Node) -> bool:
    try:
        return exact(tree) is not None
    except (Undefined, TooComplex):
        return False


def _is_choice(comparison: Comparison, expected: _Reference, answer: str) -> bool:
    """Whether ``answer`` is a choice with its letter and its text: "(C) 42" for the reference C, or for 42."""
    choice = _CHOICE.fullmatch(answer)
    if choice is None or _ANOTHER_CHOICE.search(choice[3]):
        return False
    if isinstance(expected.tree, Symbol):
        return expected.tree.name == (choice[1] or choice[2])
    try:
        return comparison.same(expected.tree, parse(choice[3]))
    except (NotMathematics, TooComplex, Undefined, Contradiction):
        return False


def _same_otherwise(comparison: Comparison, expected: _Reference, answer: str, tree: Node) -> bool:
    """Whether the two are the same if their commas are read in the other way.

    ``100,200`` is a list if the other side is one; ``2,5`` is two and a half if the other side has as many places.
    """
    other = expected.tree
    decimal = _DECIMAL_COMMA.fullmatch(answer)
    try:
        said = _DECIMAL_COMMA.fullmatch(expected.text.strip())
        if (
            said
            and type(tree) is Number
            and tree.places == len(said[2])
            and (len(said[2]) != 3 or said[1] in ("0", "-0"))
        ):
            other = parse(f"{said[1]}.{said[2]}")
        elif decimal and type(other) is Number and type(tree) is Collection and other.places == len(decimal[2]):
            tree = parse(f"{decimal[1]}.{decimal[2]}")
        elif type(tree) is Collection and _GROUPED.search(expected.text):
            other = parse(expected.text, thousands=False)
        elif type(other) is Collection and _GROUPED.search(answer):
            tree = parse(answer, thousands=False)
        else:
            return False
        if type(other) is Collection and type(tree) is Collection:
            # A list that is read only because the other side is one must at least have its order.
            other, tree = (Bracketed("(", ")", side.items) for side in (other, tree))
    except (NotMathematics, TooComplex):
        return False  # It cannot be read in the other way.
    return comparison.same(other, tree)
