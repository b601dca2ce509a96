"""The quickstart's task: the last digit of a sum of products, worked out one pair a line.

    Last digit of 4+7*9?          7*9=3
                                  4+3=7
                                  \\boxed{7}

Every line reduces one pair of neighbours to the last digit of its value. Which pair comes next is the only choice (a
product before a sum); the rest of a line is copying and a fact. So credit belongs to a few tokens of a response, which
is what token-level shaping is about. Working from left to right is sometimes right by luck: noise that real tasks have
too.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from task import Task, boxed

DIGITS = range(2, 10)
OPERATOR_COUNTS = (2, 3, 4)

SLIP = 0.5  # probability that a demonstration takes the leftmost pair where a product further right comes first
GUESS = 0.25  # probability that a demonstration answers at once with a digit at random


@dataclass(frozen=True)
class Expression:
    """Digits joined by `+` and `*`: `numbers` has one entry more than `operators` has characters."""

    numbers: tuple[int, ...]
    operators: str

    def __str__(self) -> str:
        return str(self.numbers[0]) + "".join(f"{o}{n}" for o, n in zip(self.operators, self.numbers[1:], strict=True))


class LastDigit(Task):
    name = "last_digit"
    words = ("user", "assistant", "Last digit of ", "\\boxed{")
    layers = 2
    max_length = 96  # the longest pair of prompt and response has 48
    warm_start_steps = 900

    def draw(self, rng: random.Random) -> Expression:
        """An expression with a sum and, not in the first place, a product: precedence mostly matters."""
        count, operators = rng.choice(OPERATOR_COUNTS), ""
        while "+" not in operators or "*" not in operators[1:]:
            operators = "".join(rng.choice("+*") for _ in range(count))
        return Expression(tuple(rng.choice(DIGITS) for _ in range(count + 1)), operators)

    def question(self, expression: Expression) -> str:
        return f"Last digit of {expression}?"

    def answer(self, expression: Expression) -> str:
        """The last digit of the expression's value, products before sums."""
        total, product = 0, expression.numbers[0]
        for operator, number in zip(expression.operators, expression.numbers[1:], strict=True):
            if operator == "*":
                product *= number
            else:
                total, product = total + product, number
        return str((total + product) % 10)

    def worked(self, expression: Expression, slip: float = 0.0, rng: random.Random | None = None) -> str:
        """A worked response.

        With probability `slip` it takes the leftmost pair on a line where another one comes first. The facts are
        right in any case: a slip spoils the order, never the arithmetic.
        """
        numbers, operators, lines = list(expression.numbers), list(expression.operators), []
        while operators:
            pair = operators.index("*") if "*" in operators else 0
            if pair and rng is not None and rng.random() < slip:
                pair = 0
            left, right, operator = numbers[pair], numbers[pair + 1], operators.pop(pair)
            value = (left * right if operator == "*" else left + right) % 10
            lines.append(f"{left}{operator}{right}={value}\n")
            numbers[pair : pair + 2] = [value]
        return "".join(lines) + boxed(numbers[0])

    def demonstration(self, expression: Expression, rng: random.Random) -> str:
        if rng.random() < GUESS:
            return boxed(rng.randrange(10))
        return self.worked(expression, SLIP, rng)


TASK = LastDigit()
