"""Gates whose operations have several wordings: a task with pivotal tokens of high entropy.

    Words cfa on 7?          c7 plus 3=0
                             f0mul9=0
                             a0+1=1
                             \\boxed{1}

As in `gates.py`, a gate multiplies or adds, depending on the digit. Either can be said in eight ways, equally good.
So the pivotal token of a line has eight good continuations and eight bad ones, and right responses differ from each
other; the rest of a line follows from what stands before, and only the last result is graded.
"""

from __future__ import annotations

import random

from gates import LETTERS, Gates, Row, multiplies, operation
from task import boxed

GATE_COUNTS = (8, 9, 10, 11)
# Five of one token, and one each of two, three and four: so responses soon have different kinds of tokens in one
# column. An algorithm that compares the tokens of a column, as GTPO does, would else have nothing to tell apart.
MULTIPLY = ("*", "x", " times ", " by ", " fold ", "of", "mul", "prod")
ADD = ("+", "&", " plus ", " and ", " more ", "up", "add", "with")


class Wordings(Gates):
    name = "wordings"
    words = ("user", "assistant", "Words ", " on ", "\\boxed{", *(word for word in MULTIPLY + ADD if " " in word))
    max_length = 144
    max_new_tokens = 120
    warm_start_steps = 500
    # No gate is a habit. Where two gates are wrong almost as often as right, it is chance whether a run learns them.
    slip, habits = 0.22, ""

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
