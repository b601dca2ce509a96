"""Every regular expression that sees a completion takes linear time: four times the text, about four times the time.

The patterns are found in the grader's modules, whatever their names, and the methods that they are used with in its
source: a new one is tested without a word here. What is compared are CPU times of this process, each the least of
several, so that a machine that does other things as well changes nothing.
"""

import ast
import importlib
import itertools
import pkgutil
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import math_reward.grader
from math_reward.grader import grade
from math_reward.grader.extraction import values_at_end
from math_reward.grader.extraction.boxes import MAX_GAP
from math_reward.grader.extraction.statement import TAIL_CHARACTERS
from math_reward.grader.notation.parse import MAX_CHARACTERS

pytestmark = pytest.mark.nightly
CHARACTERS = 1_000
"""And twice, and four times as many. A quadratic pattern takes a hundred times as long as it should for the last."""

FLOOR_SECONDS = 0.003
"""What takes less for the longest text, beyond three times what prose takes, is not measured further: a pattern that
is not linear takes more."""

UNITS = [
    " ", "\n", " \n", "\t ", "\n\n", "$", "$ ", "$x", "$x\n", "$$", "{", "}", "{}", "\\", "\\ ", "\\\\", "\\(", "\\[",
    "\\(x", "\\boxed{", "\\boxed", "\\boxed ", "\\text{", "\\text ", "\\frac{1}{", "0", "1", "12,", "123,", "1 ", "1.",
    "1/", "1e", "-", "- ", ",", ", ", ". ", "a", "a ", "word ", "word, ", "a_", "_", "^", "^{", "(", ")", "()", "[",
    "[x", "<", "<|", "<|a", "<answer>", "<answer>a", "<s>", "*", "**", "**a", "** ", "=", "= ", "x=", "and ", " or a",
    "or ", "is ", "answer ", "the answer is ", "final answer a", "答案", "é", "&", "&#", "&lt;", "'", "a'", "%", "C_",
    "for ", "not a ", "I hope it ", "<sup>", "<sub>a", "\\color{a}{", "\\label{", "\\\\[", "\u200b", "²", "₂", "½",
    "-1 ", "+ ", "1:", "12:34 ", "m^2 ", "m/", "Answer:\n", "#", "|", "\ud800", "\0", "\\!", ",\\!", "\\,", "\\quad ",
]  # fmt: skip
BOUNDED = {
    "math_reward.grader.extraction.around._DASH[0]": 24,
    "math_reward.grader.extraction.boxes._SEPARATOR[0]": MAX_GAP,
    "math_reward.grader.extraction.values_at_end.FORMULA[0]": TAIL_CHARACTERS,
    "math_reward.grader.extraction.values_at_end.NUMBER[0]": TAIL_CHARACTERS,
    "math_reward.grader.extraction.values_at_end._LIST[0]": values_at_end.TAIL_CHARACTERS,
    "math_reward.grader.extraction.statement._TAG[0]": TAIL_CHARACTERS,
    "math_reward.grader.notation.values._DIVISION[0]": MAX_CHARACTERS,
}
"""Patterns that are not linear, and how many characters their callers let them see."""

BEFORE = ["", "I think", "1"]
AFTER = ["", "x", "!\n"]


def texts(characters: int) -> Iterator[tuple[str, str, str, str]]:
    """Texts of about so many characters, and what they are made of."""
    for before, unit, after in itertools.product(BEFORE, UNITS, AFTER):
        yield before + unit * (characters // len(unit)) + after, before, unit, after


# What is tested


def modules() -> list[ModuleType]:
    found = pkgutil.walk_packages(math_reward.grader.__path__, "math_reward.grader.")
    return [importlib.import_module(info.name) for info in found]


def patterns_in(value: Any) -> Iterator["re.Pattern[str]"]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, dict):
        yield from patterns_in([*value.keys(), *value.values()])
    elif isinstance(value, list | tuple | set | frozenset):
        for one in value:
            yield from patterns_in(one)


SEARCHING = {"search", "finditer", "findall", "sub", "subn", "split"}
WAYS = {"search", "match", "fullmatch"}


def used() -> dict[str, tuple["re.Pattern[str]", set[str]]]:
    """Every pattern of the grader, by where it is, and whether it is searched for (``search``) or ``match``-ed."""
    found: dict[str, tuple[re.Pattern[str], set[str]]] = {}
    names: dict[re.Pattern[str], str] = {}
    ways: dict[re.Pattern[str], set[str]] = defaultdict(set)
    for module in modules():
        called: dict[str, set[str]] = defaultdict(set)
        tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
        imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
        imported = {alias.name for node in imports for alias in node.names}
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            for argument in call.args:
                if isinstance(argument, ast.Name):
                    called[argument.id].add("search")  # It is handed on, and may be searched for there.
            if not isinstance(call.func, ast.Attribute) or not isinstance(call.func.value, ast.Name):
                continue
            owner, method = call.func.value.id, call.func.attr
            way_used = {"search" if method in SEARCHING else method} & WAYS
            called[owner] |= way_used
            if owner == "re" and way_used and isinstance(call.args[0], ast.Constant):
                found[f"{module.__name__}, line {call.lineno}"] = re.compile(call.args[0].value), way_used
        for name, value in vars(module).items():
            for number, pattern in enumerate(patterns_in(value)):
                if name not in imported:
                    names.setdefault(pattern, f"{module.__name__}.{name}[{number}]")
                # Those of a table are used by the name of the loop over it.
                ways[pattern] |= called[name if value is pattern else "pattern"]
    return found | {name: (pattern, ways[pattern] or WAYS) for pattern, name in names.items()}


PATTERNS = used()


def way(pattern: "re.Pattern[str]", how: str) -> Callable[[str], Any]:
    if how == "search":
        return lambda text: sum(1 for _ in pattern.finditer(text))
    return pattern.match if how == "match" else pattern.fullmatch


def seconds(call: Callable[[str], Any], text: str, times: int = 1) -> float:
    taken = []
    for _ in range(times):
        begin = time.process_time()
        call(text)
        taken.append(time.process_time() - begin)
    return min(taken)


def grows_faster_than_linear(call: Callable[[str], Any], short: str, long: str) -> bool:
    """``long`` is four times as long as ``short``. It is looked at again before anybody is accused."""
    return all(seconds(call, long) >= 8 * seconds(call, short) + FLOOR_SECONDS for _ in range(4))


def test_the_grader_has_patterns_that_are_tested_here():
    assert len(PATTERNS) > 80
    assert {how for _, methods in PATTERNS.values() for how in methods} == {"search", "match", "fullmatch"}


def test_a_pattern_that_is_not_linear_is_noticed():
    cubic = re.compile(r"^\s*(?:\**\s*)?(?:Ans|Answer):", re.MULTILINE)
    short, long = ("I think" + " \n" * n + "x" for n in (25, 100))

    assert grows_faster_than_linear(way(cubic, "search"), short, long)


@pytest.mark.parametrize("where", sorted(PATTERNS.keys() - BOUNDED.keys()))
def test_the_time_of_a_pattern_is_linear_in_the_text(where: str):
    pattern, ways = PATTERNS[where]
    for how in sorted(ways):
        call = way(pattern, how)
        prose = 3 * seconds(call, "So it is this, and not that. " * (4 * CHARACTERS // 29), 3)
        for (short, *parts), (middle, *_), (long, *_) in zip(
            texts(CHARACTERS), texts(2 * CHARACTERS), texts(4 * CHARACTERS), strict=True
        ):
            if seconds(call, long) < prose + FLOOR_SECONDS:
                continue
            assert not grows_faster_than_linear(call, short, long), (how, parts)
            assert seconds(call, middle, 3) <= 4 * seconds(call, short, 3) + FLOOR_SECONDS, (how, parts)


@pytest.mark.parametrize("where", sorted(BOUNDED))
def test_a_pattern_that_is_not_linear_sees_only_so_much_that_it_does_not_matter(where: str):
    pattern, ways = PATTERNS[where]
    linear = seconds(way(re.compile(r"\w"), "search"), "x " * 500_000, 3)

    for how in sorted(ways):
        for text, *parts in texts(BOUNDED[where]):
            if seconds(way(pattern, how), text) > 2 * linear:
                assert seconds(way(pattern, how), text, 3) < 4 * linear, (how, parts)


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
