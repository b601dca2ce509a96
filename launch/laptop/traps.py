"""A task where certainty is a trap: gates with one rule, and three in ten are exceptions to it.

    Traps crat on 3?         c3*9 gives 7
                             r7*9:3
                             again r7*9 to 3
                             a3*3=9
                             t9*7 is 3
                             \\boxed{37393}

A gate multiplies a digit below 5 and adds to one from 5 on; the gates o to t do the reverse. The demonstrations follow
the rule, with slips, and at the exceptions they follow it too, most of the time: whoever becomes surer of the rule
alone is sure to be wrong there. As in `trail.py` the box holds the whole way of the digit, so one wrong operation
anywhere makes the answer wrong. With twenty gates a gate is seen too seldom to be learned before the rule.

Three kinds of tokens are chosen, and the rest of a line follows from what stands before. An *operation* is one token,
`*` or `+`; its entropy is low, and everything depends on it. A *synonym* is one token as well, one of eight that mean
"equals"; its entropy is high, and nothing depends on it. And a step may be checked: `again` and the same step once
more, which changes nothing but the length. So responses soon have different kinds of tokens in one column, which an
algorithm that compares the tokens of a column, as GTPO does, needs to tell them apart.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from gates import FACTORS, Row
from task import Task, boxed

GATE_COUNT = 4
LETTERS = "abcdefghijklmnopqrst"
EXCEPTIONS = "opqrst"
ADDENDS = (1, 3, 5, 7, 9)  # odd, as the factors: so the two operations never have the same result
SYNONYMS = ("=", ":", " is ", " to ", " gives ", " makes ", " leaves ", " yields ")
AGAIN = "again "

SLIP = 0.3  # probability that a line of a demonstration breaks the rule where the rule is right
HABIT = 0.85  # probability that it follows the rule at an exception
CHECKED = 0.25  # probability that a demonstration's step is checked


def multiplies(letter: str, digit: int) -> bool:
    """Whether a gate multiplies this digit: those below 5, and an exception those from 5 on."""
    return (digit < 5) != (letter in EXCEPTIONS)


def operation(letter: str, multiply: bool) -> tuple[str, int]:
    """The sign and the constant of one of a gate's two operations."""
    place = LETTERS.index(letter)
    return ("*", FACTORS[place % 3]) if multiply else ("+", ADDENDS[place % 5])


class Traps(Task):
    name = "traps"
    words = ("user", "assistant", "Traps ", " on ", "\\boxed{", AGAIN, *(word for word in SYNONYMS if len(word) > 1))
    layers = 2
    max_length = 112  # 16 of a prompt; 36 to 68 of a response
    max_new_tokens = 96  # so that DAPO's punishment, over the last quarter, begins beyond every demonstration
    warm_start_steps = 600
    max_distinct = 120_000

    def draw(self, rng: random.Random) -> Row:
        return Row("".join(rng.sample(LETTERS, GATE_COUNT)), rng.randrange(1, 10))

    def question(self, expression: Row) -> str:
        return f"Traps {expression}?"

    def answer(self, expression: Row) -> str:
        way = [expression.digit]
        for letter in expression.letters:
            way.append(_result(way[-1], *operation(letter, multiplies(letter, way[-1]))))
        return _box(way)

    def worked(self, expression: Row, slip: float = 0.0, rng: random.Random | None = None) -> str:
        return self._lines(expression, dict.fromkeys(LETTERS, slip), rng or random.Random(0))

    def demonstration(self, expression: Row, rng: random.Random) -> str:
        return self._lines(expression, {letter: HABIT if letter in EXCEPTIONS else SLIP for letter in LETTERS}, rng)

    def _lines(self, expression: Row, slips: Mapping[str, float], rng: random.Random) -> str:
        way, lines = [expression.digit], []
        for letter in expression.letters:
            digit, wrong = way[-1], rng.random() < slips[letter]
            sign, constant = operation(letter, multiplies(letter, digit) != wrong)
            way.append(_result(digit, sign, constant))
            for before in ("", AGAIN) if rng.random() < CHECKED else ("",):
                lines.append(f"{before}{letter}{digit}{sign}{constant}{rng.choice(SYNONYMS)}{way[-1]}\n")
        return "".join(lines) + boxed(_box(way))


def _result(digit: int, sign: str, constant: int) -> int:
    return (digit * constant if sign == "*" else digit + constant) % 10


def _box(way: list[int]) -> str:
    return "".join(map(str, way))


TASK = Traps()
