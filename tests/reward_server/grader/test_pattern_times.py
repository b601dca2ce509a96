"""Every regular expression that sees a completion takes linear time: four times the text, about four times the time.

``tests/benchmarks/pattern_times.py`` finds the patterns, whatever their names, and makes texts of their own parts: a
new pattern is tested without a word here. The fast tests try a few of these texts, and each night many. Here are the
texts that no single pattern has the parts of, and whole gradings. What is compared are CPU times of this thread, each
the least of several, so that a machine that does other things as well changes nothing.
"""

import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from math_reward.grader import grade
from math_reward.grader.grading import forget

from ...scripts import script

pattern_times = script(Path(__file__).resolve().parents[2] / "benchmarks" / "pattern_times.py")
BOUNDED, LIMIT = pattern_times.BOUNDED, pattern_times.LIMIT
seconds = pattern_times.seconds
PATTERNS = {used.name: used for used in pattern_times.patterns()}

CHARACTERS = 1_000
"""And twice, and four times as many. A quadratic pattern takes a hundred times as long as it should for the last."""

FLOOR_SECONDS = 0.003
"""What takes less for the longest text, beyond three times what prose takes, is not measured further: a pattern that
is not linear takes more."""

FEW = 4
"""How many texts of its own parts a pattern is tried with in the fast tests."""

UNITS = [
    " ", "\n", " \n", "\t ", "\n\n", "$", "$ ", "$x", "$x\n", "$$", "{", "}", "{}", "\\", "\\ ", "\\\\", "\\(", "\\[",
    "\\(x", "\\boxed{", "\\boxed", "\\boxed ", "\\text{", "\\text ", "\\frac{1}{", "0", "1", "12,", "123,", "1 ", "1.",
    "1/", "1e", "-", "- ", ",", ", ", ". ", "a", "a ", "word ", "word, ", "a_", "_", "^", "^{", "(", ")", "()", "[",
    "[x", "<", "<|", "<|a", "<answer>", "<answer>a", "<s>", "*", "**", "**a", "** ", "=", "= ", "x=", "and ", " or a",
    "or ", "is ", "answer ", "the answer is ", "final answer a", "答案", "é", "&", "&#", "&lt;", "'", "a'", "%", "C_",
    "for ", "not a ", "I hope it ", "<sup>", "<sub>a", "\\color{a}{", "\\label{", "\\\\[", "\u200b", "²", "₂", "½",
    "-1 ", "+ ", "1:", "12:34 ", "m^2 ", "m/", "Answer:\n", "#", "|", "\ud800", "\0", "\\!", ",\\!", "\\,", "\\quad ",
    "(A) ", "A. ", "\\[ x", "1-", "a+", "\\text{ and ",
]  # fmt: skip

BEFORE = ["", "I think", "1"]
AFTER = ["", "x", "!\n"]


def texts(characters: int) -> Iterator[tuple[str, str, str, str]]:
    """Texts of about so many characters, and what they are made of."""
    for before, unit, after in itertools.product(BEFORE, UNITS, AFTER):
        yield before + unit * (characters // len(unit)) + after, before, unit, after


def grows_faster_than_linear(call: Callable[[str], Any], short: str, long: str) -> bool:
    """``long`` is four times as long as ``short``. It is looked at again before anybody is accused."""
    return all(seconds(call, long) >= 8 * seconds(call, short) + FLOOR_SECONDS for _ in range(4))


# The patterns


def test_the_patterns_of_all_modules_are_tested_here():
    assert len(PATTERNS) > 400
    assert {way for used in PATTERNS.values() for way in used.ways} == {"search", "match", "fullmatch"}
    assert PATTERNS["words.letters._LETTERS"].ways == ("fullmatch",)
    assert PATTERNS["notation.rewrites.REWRITES[0]"].ways == ("search",)
    assert BOUNDED.keys() <= PATTERNS.keys()


LETTERS = r"(?:[\s(,&.)]|and)*(?:\(?[A-J]\)?(?:[\s(,&.)]|and)+)*\(?[A-J][\s).,]*"
GROUPED = r"(?<![\d.,])(\d{1,3}(?: \d{3})+),(\d{1,2})(?!\d)"
NAME = r"\d\s?[\u0900-\u097f](?:[^\W\d_]|[\u0900-\u097f]){0,24}\Z"
BULLETS = r"(?:^|\n)((?:[ \t]*-[ \t]+[^\n]{1,80}(?:\n|$)){2,12})\s*$"


@pytest.mark.parametrize(
    ("said", "way"),
    [
        (LETTERS, "fullmatch"),  # exponential, as it was
        (NAME, "search"),
        (BULLETS, "search"),
        (GROUPED, "search"),  # quadratic
        (r"^\s*(?:\**\s*)?(?:Ans|Answer):", "search"),
    ],
)
def test_a_pattern_that_is_not_linear_is_noticed_by_texts_of_its_own_parts(said: str, way: str):
    used = pattern_times.Used("said", re.compile(said, re.MULTILINE if "Ans" in said else 0), (way,))

    assert list(pattern_times.faults(used, 200, seed=1))


def test_a_linear_pattern_is_accused_by_none_of_them():
    used = pattern_times.Used("said", re.compile(r"(?:[\s(,)]|[A-J](?![A-J]))*[A-J]"), ("fullmatch",))

    assert not list(pattern_times.faults(used, 100, seed=1))


def test_a_few_texts_of_their_own_parts_take_no_pattern_long():
    assert [fault for used in PATTERNS.values() for fault in pattern_times.faults(used, FEW, seed=2)] == []


@pytest.mark.nightly
@pytest.mark.parametrize("name", sorted(PATTERNS.keys() - BOUNDED.keys()))
def test_the_time_of_a_pattern_is_linear_in_any_text(name: str):
    for way in PATTERNS[name].ways:
        call = PATTERNS[name].call(way)
        prose = 3 * seconds(call, "So it is this, and not that. " * (4 * CHARACTERS // 29), 3)
        for (short, *parts), (middle, *_), (long, *_) in zip(
            texts(CHARACTERS), texts(2 * CHARACTERS), texts(4 * CHARACTERS), strict=True
        ):
            if seconds(call, long) < prose + FLOOR_SECONDS:
                continue
            assert not grows_faster_than_linear(call, short, long), (way, parts)
            assert seconds(call, middle, 3) <= 4 * seconds(call, short, 3) + FLOOR_SECONDS, (way, parts)


@pytest.mark.nightly
@pytest.mark.parametrize("name", sorted(BOUNDED))
def test_a_pattern_that_is_not_linear_sees_only_so_much_that_it_does_not_matter(name: str):
    for way, (before, unit, after) in itertools.product(PATTERNS[name].ways, itertools.product(BEFORE, UNITS, AFTER)):
        text = pattern_times.Text(before, unit, after)
        assert pattern_times.fault_of(PATTERNS[name].call(way), text, BOUNDED[name][0]) is None, (way, text)


# Whole gradings


def is_stopped(completion: str, reference: str, prompt: str | None = None) -> bool:
    """Whether a grading that nobody remembers takes more than `LIMIT` of CPU time, a thousand times what it should."""
    grade(r"\boxed{3 + x}", "2x")  # which imports SymPy
    forget()
    return seconds(lambda text: grade(text, reference, prompt), completion) == float("inf")


LIST = ", ".join(f"({letter})" for letter in "ABCDEFGHIJ" * 4)


@pytest.mark.parametrize(
    "answer",
    [
        "(A) " * 12 + "x",
        "(A) " * 40 + "x",
        LIST + " are all wrong",
        LIST[:48] + " are all wrong",
        "\\textand" * 24 + " x",
        "1 " + "क" * 24 + " x",
        "A. " * 640,
        "A) " + " " * 1_900 + "x",
        "1:41" + " " * 1_900 + "x",
        "<" + "," * 1_900,
        "1 234 " * 320,
        "1" + ",111" * 490 + "x",
    ],
    ids=lambda answer: answer[:12],
)
def test_no_answer_costs_the_deadline_as_an_answer_or_as_a_reference(answer: str):
    assert not is_stopped(rf"\boxed{{{answer}}}", "B, C")
    assert not is_stopped(f"The answer is {answer}", "B, C")
    assert not is_stopped(r"\boxed{B, C}", answer)


@pytest.mark.parametrize(
    "completion",
    [
        "The items\n" + ("-" + " " * 40 + "x\n") * 12 + "so",
        r"\\(" * 1_000,
        "111," * 750 + "x",
        "A. " * 33_000,
        "(A) " * 25_000,
        "1 234 " * 16_000,
    ],
    ids=lambda completion: completion[:12],
)
def test_no_text_costs_the_deadline(completion: str):
    assert not is_stopped(completion, "42")
    assert not is_stopped(rf"\boxed{{{completion}}}", "42")
    assert not is_stopped(r"\boxed{42}", completion)


def test_a_prompt_of_marks_alone_is_searched_for_choices_in_one_pass():
    prompt = "A. " * 1_333

    assert not is_stopped(prompt + r"\boxed{B}", "B", prompt)


@pytest.mark.nightly
def test_the_time_of_grading_is_linear_in_the_completion_up_to_a_megabyte():
    def call(text: str) -> Any:
        return grade(text, "42")

    call(r"So it is \boxed{41}.")
    for (short, *parts), (middle, *_), (long, *_) in zip(
        texts(250_000), texts(500_000), texts(1_000_000), strict=True
    ):
        if parts[0] or parts[2] != "x" or seconds(call, long) < 4 * FLOOR_SECONDS:
            continue
        assert not grows_faster_than_linear(call, short, long), parts
        assert seconds(call, middle, 3) <= 4 * seconds(call, short, 3) + FLOOR_SECONDS, parts
