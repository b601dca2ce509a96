"""The study's task: a digit goes through a row of gates, and what a gate does depends on the digit.

    Gates cfa on 7?          c7+3=0
                             f0*9=0
                             a0+1=1
                             \\boxed{1}

A gate multiplies where the digit has the gate's property (odd, below 5, ...), and adds otherwise; results are taken
modulo 10. Each of the 3 to 7 lines has one pivotal token, `*` or `+`; the letter, the digit, the constant and the
result follow from what stands before. Whether a line was right shows in the last result alone, and less
clearly the more gates there are. Ten gates and ten digits make a hundred choices to be learned, each for itself.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from task import Task, boxed

GATE_COUNTS = (3, 4, 5, 6, 7)
LETTERS = "abcdefghij"
PROPERTIES = (
    frozenset({1, 3, 5, 7, 9}),  # odd
    frozenset({0, 1, 2, 3, 4}),  # below 5
    frozenset({0, 3, 6, 9}),  # divisible by 3
    frozenset({2, 3, 5, 7}),  # prime
    frozenset({0, 1, 4, 9}),  # square
)
FACTORS = (3, 7, 9)  # without a common divisor with 10, like every addition: no gate makes two digits one

SLIP = 0.25  # probability that a line of a demonstration takes the wrong one of a gate's two operations
HABITS = "hij"  # gates at which the wrong one is the habit
HABIT = 0.6  # its probability there


@dataclass(frozen=True)
class Row:
    """A digit and the gates it goes through, no letter twice."""

    letters: str
    digit: int

    def __str__(self) -> str:
        return f"{self.letters} on {self.digit}"


def multiplies(letter: str, digit: int) -> bool:
    """Whether a gate multiplies this digit: five gates do with their property, five without it."""
    place = LETTERS.index(letter)
    return (digit in PROPERTIES[place % 5]) == (place < 5)


def operation(letter: str, multiply: bool) -> tuple[str, int]:
    """The sign and the constant of one of a gate's two operations."""
    place = LETTERS.index(letter)
    return ("*", FACTORS[place % 3]) if multiply else ("+", 1 + place % 9)


class Gates(Task):
    name = "gates"
    words = ("user", "assistant", "Gates ", " on ", "\\boxed{")
    layers = 2
    max_length = 96  # 18 of the longest prompt, 53 of the longest response
    max_new_tokens = 64
    warm_start_steps = 1300
    max_distinct = 120_000
    slip = SLIP
    habits = HABITS
    habit = HABIT

    def draw(self, rng: random.Random) -> Row:
        return Row("".join(rng.sample(LETTERS, rng.choice(GATE_COUNTS))), rng.randrange(10))

    def question(self, expression: Row) -> str:
        return f"Gates {expression}?"

    def answer(self, expression: Row) -> str:
        results = [expression.digit]
        for letter in expression.letters:
            sign, constant = operation(letter, multiplies(letter, results[-1]))
            results.append((results[-1] * constant if sign == "*" else results[-1] + constant) % 10)
        return self.box(results)

    def worked(self, expression: Row, slip: float = 0.0, rng: random.Random | None = None) -> str:
        return self._lines(expression, dict.fromkeys(LETTERS, slip), rng or random.Random(0))

    def demonstration(self, expression: Row, rng: random.Random) -> str:
        """At most gates right more often than wrong; at those of `habits` wrong more often than right, so that it does
        not do to become surer of what is likely already."""
        slips = {letter: self.habit if letter in self.habits else self.slip for letter in LETTERS}
        return self._lines(expression, slips, rng)

    def box(self, results: list[int]) -> str:
        """What goes into the box, from the first digit and every line's result."""
        return str(results[-1])

    def _lines(self, expression: Row, slips: dict[str, float], rng: random.Random) -> str:
        results, lines = [expression.digit], []
        for letter in expression.letters:
            digit, wrong = results[-1], rng.random() < slips[letter]
            sign, constant = operation(letter, multiplies(letter, digit) != wrong)
            results.append((digit * constant if sign == "*" else digit + constant) % 10)
            lines.append(f"{letter}{digit}{sign}{constant}={results[-1]}\n")
        return "".join(lines) + boxed(self.box(results))


TASK = Gates()
