"""The entropy study's task: which items pass the sieve, taken in any order, and the last digit of their sum.

    Sieve c7f1a4k9b2?        k9=9
                             c7=6
                             b2=8
                             \\boxed{8}

An item is a letter with a digit, and passes if its digit has the letter's property (odd, below 5, ...). A line takes
one item and writes the last digit of the sum so far. So the first token of a line is pivotal and has several good
continuations: every item that passes and has not been taken, in whatever order, so that right responses differ from
each other. It has bad ones too: an item that does not pass, or the end while one is missing. The rest of a line
follows from what stands before. Whether a choice was right shows in the last digit alone.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from gates import PROPERTIES
from task import Task, boxed

LETTERS = "abcdefghijklmnopqrst"
DIGITS = range(1, 10)  # 0 would add nothing: taking it would be neither right nor wrong


def passes(letter: str, digit: int) -> bool:
    """Whether an item passes: for the first half of the letters with their property, for the others without it."""
    place = LETTERS.index(letter)
    return (digit in PROPERTIES[place % len(PROPERTIES)]) == (place < len(LETTERS) // 2)


@dataclass(frozen=True)
class Items:
    """Letters, none twice, each with its digit."""

    letters: str
    digits: tuple[int, ...]

    def __str__(self) -> str:
        return "".join(f"{letter}{digit}" for letter, digit in self.pairs)

    @property
    def pairs(self) -> list[tuple[str, int]]:
        return list(zip(self.letters, self.digits, strict=True))


class Sieve(Task):
    name = "sieve"
    words = ("user", "assistant", "Sieve ", "\\boxed{")
    layers = 2
    max_length = 160
    max_new_tokens = 104
    warm_start_steps = 1500
    max_distinct = 120_000

    def __init__(self, passing: range, failing: range, slip: float, habits: str, habit: float) -> None:
        self.passing, self.failing = passing, failing
        self.slip, self.habits, self.habit = slip, habits, habit

    def draw(self, rng: random.Random) -> Items:
        wanted = {True: rng.choice(self.passing), False: rng.choice(self.failing)}
        pairs: list[tuple[str, int]] = []
        for letter in rng.sample(LETTERS, len(LETTERS)):
            digit = rng.choice(DIGITS)
            if wanted[passes(letter, digit)]:
                wanted[passes(letter, digit)] -= 1
                pairs.append((letter, digit))
        return Items("".join(letter for letter, _ in pairs), tuple(digit for _, digit in pairs))

    def question(self, expression: Items) -> str:
        return f"Sieve {expression}?"

    def answer(self, expression: Items) -> str:
        return str(sum(digit for letter, digit in expression.pairs if passes(letter, digit)) % 10)

    def worked(self, expression: Items, slip: float = 0.0, rng: random.Random | None = None) -> str:
        return self._lines(expression, dict.fromkeys(LETTERS, slip), rng or random.Random(0))

    def demonstration(self, expression: Items, rng: random.Random) -> str:
        slips = {letter: self.habit if letter in self.habits else self.slip for letter in LETTERS}
        return self._lines(expression, slips, rng)

    def _lines(self, expression: Items, slips: dict[str, float], rng: random.Random) -> str:
        taken = [pair for pair in expression.pairs if passes(*pair) != (rng.random() < slips[pair[0]])]
        rng.shuffle(taken)
        total, lines = 0, []
        for letter, digit in taken:
            total = (total + digit) % 10
            lines.append(f"{letter}{digit}={total}\n")
        return "".join(lines) + boxed(total)


TASK = Sieve(passing=range(9, 13), failing=range(3, 6), slip=0.05, habits="dint", habit=0.3)
