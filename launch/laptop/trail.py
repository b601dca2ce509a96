"""The guided study's task: the gates of `gates.py`, but the answer is the whole way of the digit, so that it is hardly
ever right by accident and right answers are few.

    Trail cfab on 7?         c7+3=0
                             f0*9=0
                             a0+1=1
                             b1*7=7
                             \\boxed{70017}

The box holds the first digit and every line's result as one number. It begins with the first digit, which is never 0:
the grader compares numbers, and 071 is 71. One wrong result anywhere makes the answer wrong, while a single digit at
the end is right in one of ten wrong chains.

There are two policies to it. The weak one slips everywhere and has wrong habits at four gates: one response in twenty
is right. The strong one, a guide for the weak one, knows all gates and is careless at times: three in five are.
"""

from __future__ import annotations

import random

from gates import LETTERS, Gates, Row

GATE_COUNTS = (4, 5, 6)


class Trail(Gates):
    name = "trail"
    words = ("user", "assistant", "Trail ", " on ", "\\boxed{")
    max_length = 96  # 18 of the longest prompt, 52 of the longest response

    def __init__(self, slip: float, habits: str, habit: float, warm_start_steps: int) -> None:
        """The demonstrations' errors: see `Gates.demonstration`."""
        self.slip, self.habits, self.habit = slip, habits, habit
        self.warm_start_steps = warm_start_steps

    def draw(self, rng: random.Random) -> Row:
        return Row("".join(rng.sample(LETTERS, rng.choice(GATE_COUNTS))), rng.randrange(1, 10))

    def question(self, expression: Row) -> str:
        return f"Trail {expression}?"

    def box(self, results: list[int]) -> str:
        return "".join(map(str, results))


TASK = Trail(slip=0.3, habits="ghij", habit=0.75, warm_start_steps=480)
STRONG = Trail(slip=0.1, habits="", habit=0.1, warm_start_steps=480)
