"""Gates whose operations have several wordings: a task with pivotal tokens of high entropy.

    Words cfa on 7?          c7 times 3=1
                             f1 plus 6=7
                             a7*3=1
                             \\\\boxed{1}

As in `gates.py`, a gate multiplies or adds, depending on the digit. Either can be said in six ways, all equally good.
So the pivotal token of a line has six good continuations and six bad ones, and right responses differ from each other;
the rest of a line follows from what stands before, and only the last result is graded.
"""

from __future__ import annotations

import random

from gates import LETTERS, Gates, Row, multiplies, operation
from task import boxed

GATE_COUNTS = (8, 9, 10, 11)
MULTIPLY = ("*", "x", " times ", " by ", " fold ", " of ")
ADD = ("+", "&", " plus ", " and ", " more ", " with ")


class Wordings(Gates):
    name = "wordings"
    words = ("user", "assistant", "Words ", " on ", "\\boxed{", *(word for word in MULTIPLY + ADD if len(word) > 1))
    max_length = 128
    max_new_tokens = 88
    warm_start_steps = 700
    slip, habits, habit = 0.1, "ij", 0.4

    def draw(self, rng: random.Random) -> Row:
        return Row("".join(rng.choices(LETTERS, k=rng.choice(GATE_COUNTS))), rng.randrange(10))

    def question(self, expression: Row) -> str:
        return f"Words {expression}?"

    def worked(self, expression: Row, slip: float = 0.0, rng: random.Random | None = None) -> str:
        return self._lines(expression, dict.fromkeys(LETTERS, slip), rng or random.Random(0))

    def _lines(self, expression: Row, slips: dict[str, float], rng: random.Random) -> str:
        results, lines = [expression.digit], []
        for letter in expression.letters:
            digit, wrong = results[-1], rng.random() < slips[letter]
            sign, constant = operation(letter, multiplies(letter, digit) != wrong)
            results.append((digit * constant if sign == "*" else digit + constant) % 10)
            word = rng.choice(MULTIPLY if sign == "*" else ADD)
            lines.append(f"{letter}{digit}{word}{constant}={results[-1]}\n")
        return "".join(lines) + boxed(self.box(results))


TASK = Wordings()
