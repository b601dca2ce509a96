"""Whether an answer is the reference: as the same text, word or date, and else by the rules."""

from __future__ import annotations

import re
from collections.abc import Mapping

from math_reward.grader.errors import NotMathematics, TooComplex, Undefined
from math_reward.grader.mathematics.propositions import equivalent, proposition
from math_reward.grader.mathematics.undone import in_lowest_terms, undone
from math_reward.grader.notation.calendar_dates import date, same_date
from math_reward.grader.notation.declarations import WHOLE_NUMBERS, Domain, compatible, declared
from math_reward.grader.notation.exact import exact
from math_reward.grader.notation.functions import SHORT_WORDS
from math_reward.grader.notation.normalise import compact
from math_reward.grader.notation.parse import parse
from math_reward.grader.notation.syntax import (
    Bracketed,
    Collection,
    Node,
    Number,
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
from math_reward.grader.rules.families import same_family
from math_reward.grader.rules.labels import Contradiction, value_of_expression
from math_reward.grader.rules.relations import is_remainder
from math_reward.grader.rules.trees import letters_agreed
from math_reward.grader.verdict import Grade, Options, Stage, Verdict

_GROUPED = re.compile(r"\d,\d{3}(?!\d)")
_GROUP_FROM_ZERO = re.compile(r",0\d\d")
_PLAIN_LIST = re.compile(r"-?[\d.]+(?: ?, ?-?[\d.]+)+")
_DECIMAL_COMMA = re.compile(r"(-?\d+),(\d+)")
_CHOICE = re.compile(r"(?:\\(?:text|math)\w*\s?\{)?\s?(?:\(\s?([A-J])\s?\)|([A-J])\s?[.):])[}\s]{1,4}(\S.*)")
# What follows the letter is what the choice says: no other letter, and nothing about the letter.
_ANOTHER_CHOICE = re.compile(r"\bor\b|\([A-J]\)")
_ABOUT_THE_LETTER = re.compile(
    r"^[,.;:&/|]|\b(?!A [a-z]{2})[A-J]\b"
    r"|\b(?:is|was|not|no|never|wrong|incorrect|false|unlikely|maybe|perhaps|guess)\b"
)
# An answer without one of these leaves no operation undone, so its tree need not be searched.
_OPERATION = re.compile(r"sum|prod|int|lim|sup|matri|array|det|diag|tr|partial|d", re.IGNORECASE)
# The segment AB, or "not A and B".
_SEGMENT = re.compile(r"\\overline ?\{ ?[A-Z] ?[A-Z] ?\}")
MAX_POINTS = 4
"""Capitals that may be the names of points: ABCD is not abcd."""


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
        if _is_choice(comparison, reference, answer):
            return _graded(reference, answer, Verdict.CORRECT, Stage.STRUCTURE)
        return _graded(reference, answer, Verdict.WRONG, Stage.STRING, f"The answer cannot be read: {error}.")
    expected = reference.reading.tree
    if not options.allow_unevaluated and _OPERATION.search(answer.normal) and undone(tree) - undone(expected):
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
        detail = "A parameter has a different range in the reference."
        return _graded(reference, answer, Verdict.WRONG, Stage.STRUCTURE, detail)
    verdict, detail = Verdict.WRONG, ""
    if (
        comparison.same(*_with_whole_numbers(ranges, expected, tree))
        or _is_choice(comparison, reference, answer)
        or same_family(
            comparison,
            expected,
            tree,
            ranges | declared(reference.normal),
            domains | declared(answer.normal),
            parameters,
        )
        or _same_otherwise(comparison, reference, answer, tree)
        or _same_named_value(comparison, expected, tree)
        or is_remainder(expected, tree)
    ):
        verdict = Verdict.CORRECT
    elif mentions(comparison, expected, tree):
        verdict, detail = Verdict.AMBIGUOUS, "The answer has several values, of which the reference is one."
    rule = None if comparison.rule is None else comparison.rule.sentence
    return Grade(verdict, answer.text, reference.given, detail or None, comparison.stage, rule, comparison.difference)


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


def _is_choice(comparison: Comparison, reference: Reference, answer: Answer) -> bool:
    """Whether ``answer`` is a choice with its letter and its text: "(C) 42" for the reference C, or for 42."""
    choice = _CHOICE.fullmatch(answer.normal)
    if choice is None or _ANOTHER_CHOICE.search(choice[3]):
        return False
    expected = reference.reading.tree
    if isinstance(expected, Symbol):
        return expected.name == (choice[1] or choice[2]) and _ABOUT_THE_LETTER.search(choice[3]) is None
    try:
        return comparison.same(expected, parse(choice[3]))
    except (NotMathematics, TooComplex, Undefined, Contradiction):
        return False


def _is_list(text: str) -> bool:
    """Whether a number with commas may be a list: ``100,200``, and not ``10,000``."""
    return _GROUPED.search(text) is not None and _GROUP_FROM_ZERO.search(text) is None


def _same_named_value(comparison: Comparison, expected: Node, tree: Node) -> bool:
    """Whether the answer says of what the reference is the value: ``m + n = 10``, ``A(3, -2)``."""
    if isinstance(tree, Product) and isinstance(expected, Bracketed) and len(tree.factors) == 2:
        name, point = tree.factors
        is_point = isinstance(name, Symbol) and name.name.isupper() and type(point) is Bracketed
        return is_point and not symbols(expected) and comparison.same_value(expected, point)
    if isinstance(tree, Collection) and tree.kind == "or" and not isinstance(expected, Collection):
        return all(comparison.same(expected, item) for item in tree.items)  # 1/4 or 0.25
    if symbols(expected) and isinstance(tree, Relation) and not isinstance(expected, Relation):
        # (x + 1)^2 = x^2 + 2x + 1
        return set(tree.operators) == {"="} and all(comparison.same_value(expected, side) for side in tree.operands)
    value = value_of_expression(comparison, expected, tree)
    return value is not None and comparison.same_value(expected, value)


def _same_otherwise(comparison: Comparison, reference: Reference, answer: Answer, tree: Node) -> bool:
    """Whether the two are the same if their commas are read in the other way.

    ``100,200`` is a list if the other side is one; ``2,5`` is two and a half if the other side has as many places.
    """
    other = reference.reading.tree
    decimal = _DECIMAL_COMMA.fullmatch(answer.normal)
    try:
        said = _DECIMAL_COMMA.fullmatch(reference.text.strip())
        if (
            said
            and type(tree) is Number
            and tree.places == len(said[2])
            and (len(said[2]) != 3 or said[1] in ("0", "-0"))
        ):
            other = parse(f"{said[1]}.{said[2]}")
        elif decimal and type(other) is Number and type(tree) is Collection and other.places == len(decimal[2]):
            tree = parse(f"{decimal[1]}.{decimal[2]}")
        elif type(tree) is Collection and _is_list(reference.text) and _PLAIN_LIST.fullmatch(answer.normal):
            other = parse(reference.text, thousands=False)
        elif type(other) is Collection and _is_list(answer.normal):
            tree = parse(answer.text, thousands=False)
        else:
            return False
        if type(other) is Collection and type(tree) is Collection:
            # A list that is read only because the other side is one must at least have its order.
            other, tree = (Bracketed("(", ")", side.items) for side in (other, tree))
    except (NotMathematics, TooComplex):
        return False  # It cannot be read in the other way.
    return comparison.same(other, tree)
