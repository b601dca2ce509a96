"""Whether an answer is the reference: as the same text, word or date, and else by the rules."""

from __future__ import annotations

import re
from collections.abc import Mapping

from math_reward.grader.errors import NotMathematics, TooComplex, Undefined
from math_reward.grader.mathematics.propositions import equivalent, proposition
from math_reward.grader.mathematics.undone import in_lowest_terms, undone
from math_reward.grader.notation.calendar_dates import date, same_date
from math_reward.grader.notation.declarations import WHOLE_NUMBERS, Domain, compatible
from math_reward.grader.notation.exact import exact
from math_reward.grader.notation.functions import SHORT_WORDS
from math_reward.grader.notation.normalise import compact
from math_reward.grader.notation.parse import parse
from math_reward.grader.notation.syntax import (
    Node,
    Product,
    Relation,
    Symbol,
    Text,
    substituted,
    symbols,
)
from math_reward.grader.notation.texts import wording
from math_reward.grader.reading import Answer, Reference
from math_reward.grader.rules import RULES
from math_reward.grader.rules.collections import mentions
from math_reward.grader.rules.comparison import Comparison
from math_reward.grader.rules.labels import Contradiction
from math_reward.grader.rules.trees import letters_agreed
from math_reward.grader.second_readings import SECOND_READINGS, Sides, is_choice
from math_reward.grader.verdict import Grade, Options, Stage, Verdict
from math_reward.grader.words.truth import first_truth, same_truth, truth

# An answer without one of these leaves no operation undone, so its tree need not be searched.
_OPERATION = re.compile(r"sum|prod|int|lim|sup|matri|array|det|diag|tr|partial|d", re.IGNORECASE)
# The segment AB, or "not A and B".
_SEGMENT = re.compile(r"\\overline ?\{ ?[A-Z] ?[A-Z] ?\}")
MAX_POINTS = 4
"""Capitals that may be the names of points: ABCD is not abcd."""
_NARROWER = re.compile(
    r"\b(?:for|when|where|if|with)\b[^,;]{0,20}\b(?P<kind>even|odd|prime)\b|\bfor some[ }$]*(?P<letter>[a-z])[ }$]*$"
)


def compared(
    reference: Reference, answer: Answer, options: Options, parameters: frozenset[str] = frozenset()
) -> Grade:
    """Whether the two are the same, and what decided it. The reference has no fault.

    ``parameters`` are the letters of the reference that the prompt makes arbitrary.
    """
    comparison = Comparison(options, RULES)
    try:
        return (
            _by_text(reference, answer, comparison)
            or _by_form(reference, answer, comparison)
            or _by_trees(reference, answer, comparison, parameters)
        )
    except TooComplex as error:
        return _graded(reference, answer, Verdict.TOO_COMPLEX, None, f"The answer was not calculated: {error}.")
    except Undefined as error:
        return _graded(reference, answer, Verdict.WRONG, comparison.stage, f"The answer has no value: {error}.")
    except Contradiction as error:
        detail = f"The answer contradicts itself: {error}."
        return _graded(reference, answer, Verdict.AMBIGUOUS, comparison.stage, detail)


def _graded(
    reference: Reference, answer: Answer, verdict: Verdict, stage: Stage | None, detail: str | None = None
) -> Grade:
    return Grade(verdict, answer.text, reference.given, detail, stage)


def _by_text(reference: Reference, answer: Answer, comparison: Comparison) -> Grade | None:
    """The grade, if the texts decide; else None."""
    options = comparison.options

    def graded(same: bool, stage: Stage) -> Grade:
        return _graded(reference, answer, Verdict.CORRECT if same else Verdict.WRONG, stage)

    if answer.text == reference.text and not options.evaluated:
        return graded(True, Stage.STRING)
    if answer.is_integer and reference.is_integer and not options.rel_tol:
        same = int(answer.text) == int(reference.text)
        rule = None if same else RULES[-1].sentence
        return Grade(Verdict.CORRECT if same else Verdict.WRONG, answer.text, reference.given, None, Stage.EXACT, rule)
    if not answer.normal:
        return _graded(reference, answer, Verdict.NO_ANSWER, None, "The box is empty.")
    if reference.proposition is not None:
        said = proposition(answer.text)
        if not _SEGMENT.fullmatch(reference.normal) or (said is not None and said.compound):
            return graded(said is not None and equivalent(reference.proposition, said), Stage.STRUCTURE)
    if reference.day is not None:
        day = date(answer.text)
        return graded(day is not None and same_date(reference.day, day), Stage.STRUCTURE)
    if compact(answer.normal) == reference.compact and not options.evaluated:
        return graded(True, Stage.STRING)
    if (agreed := same_truth(reference.text, answer.text)) is not None:
        return graded(agreed, Stage.STRING)
    if (known := truth(reference.normal)) is not None and (stated := first_truth(answer.normal)) is not None:
        return graded(known == stated, Stage.STRING)
    if reference.wording is not None and _same_words(comparison, reference, answer):
        return graded(True, Stage.STRING)
    return None


def _by_form(reference: Reference, answer: Answer, comparison: Comparison) -> Grade | None:
    """The grade of an answer that is not mathematics, or leaves something to be done; else None."""
    options = comparison.options
    try:
        tree = answer.reading.tree
    except TooComplex as error:
        return _graded(reference, answer, Verdict.TOO_COMPLEX, None, f"The answer was not parsed: {error}.")
    except NotMathematics as error:
        if is_choice(comparison, reference, answer):
            return _graded(reference, answer, Verdict.CORRECT, Stage.STRUCTURE)
        return _graded(reference, answer, Verdict.WRONG, Stage.STRING, f"The answer cannot be read: {error}.")
    expected = reference.reading.tree
    value = tree
    if isinstance(tree, Relation) and set(tree.operators) == {"="} and not isinstance(expected, Relation):
        said = tree.operands[-1]  # The left side says of what it is the value.
        value = said if symbols(said) <= symbols(expected) else tree
    if not options.allow_unevaluated and _OPERATION.search(answer.normal) and undone(value) - undone(expected):
        detail = "The answer leaves an operation undone."
    elif options.evaluated and _is_number(expected) and not in_lowest_terms(tree):
        detail = "The answer is not a number in lowest terms."
    else:
        return None
    return _graded(reference, answer, Verdict.UNEVALUATED, Stage.STRUCTURE, detail)


def _by_trees(reference: Reference, answer: Answer, comparison: Comparison, parameters: frozenset[str]) -> Grade:
    (expected, ranges), (tree, domains) = reference.reading, answer.reading
    expected, tree = letters_agreed(expected, tree, reference.normal, answer.normal)
    same_word = _as_one_word(answer.normal, reference.normal)
    if same_word is not None and all(isinstance(side, (Product, Text)) for side in (tree, expected)):
        return _graded(reference, answer, Verdict.CORRECT if same_word else Verdict.WRONG, Stage.STRING)
    if not compatible(ranges, domains):
        other_range = "A parameter has a different range in the reference."
        return _graded(reference, answer, Verdict.WRONG, Stage.STRUCTURE, other_range)
    if _narrows(reference, answer, expected):
        narrower = "The answer holds for some values only, and the reference for all."
        return _graded(reference, answer, Verdict.WRONG, Stage.STRUCTURE, narrower)
    same = comparison.same(*_with_whole_numbers(ranges, expected, tree))
    verdict, detail, difference = Verdict.CORRECT if same else Verdict.WRONG, None, comparison.difference
    sentence = None if comparison.rule is None else comparison.rule.sentence
    if not same:
        sides = Sides(reference, answer, expected, tree, parameters)
        second = next((reading for reading in SECOND_READINGS if reading.same(comparison, sides)), None)
        if second is not None:
            verdict, sentence, difference = Verdict.CORRECT, second.sentence, None
        elif mentions(comparison, expected, tree):
            verdict, detail = Verdict.AMBIGUOUS, "The answer has several values, of which the reference is one."
    return Grade(verdict, answer.text, reference.given, detail, comparison.stage, sentence, difference)


def _same_words(comparison: Comparison, reference: Reference, answer: Answer) -> bool:
    """Whether both have the same words in the same order, with the same mathematics between them."""
    expected, said = reference.wording, wording(answer.normal)
    if expected is None or said is None or said.words != expected.words:
        return False
    try:
        return all(
            left == right or comparison.same(parse(left), parse(right))
            for left, right in zip(expected.between, said.between, strict=True)
        )
    except (NotMathematics, TooComplex, Undefined, Contradiction):
        return False


def _narrows(reference: Reference, answer: Answer, expected: Node) -> bool:
    """Whether the answer says "for even k" or "for some x", and the reference does not."""
    said = _NARROWER.search(answer.normal)
    if said is None:
        return False
    if said["kind"]:
        return said["kind"] not in reference.normal
    declared = "\\in" in reference.normal or "some" in reference.normal or "integer" in reference.normal
    return not declared and isinstance(expected, Relation) and said["letter"] in symbols(expected)


def _with_whole_numbers(ranges: Mapping[str, Domain], *sides: Node) -> list[Node]:
    """The sides with names that count for the letters that the reference declares whole: (-1)^x has a value then."""
    whole = {name: Symbol(f"integer {name}") for name, domain in ranges.items() if domain in WHOLE_NUMBERS}
    return [substituted(side, whole) if whole else side for side in sides]


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


def _is_number(tree: Node) -> bool:
    try:
        return exact(tree) is not None
    except (Undefined, TooComplex):
        return False
