"""Word problems of one and two steps for a small language model, with worked examples in the prompt.

Held-out problems have other names, things and numbers than those that are trained on: which split a problem's numbers
belong to follows from the numbers alone."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

HELD_OUT_SHARE = 4  # one choice of numbers in so many is held out
NAMES = {False: ("Tom", "Anna", "Sam", "Lily", "Max", "Ella"), True: ("Leo", "Mia", "Paul", "Nina", "Omar", "Rosa")}
THINGS = {False: ("apples", "books", "coins", "marbles", "pens"), True: ("cards", "stamps", "shells", "cups", "nuts")}
SYSTEM = "Solve the problem in one line and put the answer in \\boxed{}."
EXAMPLES = (
    ("Ben has 6 hats and buys 2 more. How many hats does Ben have now?", "Ben has 6 + 2 = 8 hats. \\boxed{8}"),
    ("Ann has 7 eggs and gives away 3. How many eggs does Ann have now?", "Ann has 7 - 3 = 4 eggs. \\boxed{4}"),
    (
        "Kim has 9 keys, finds 3 more and gives away 2. How many keys does Kim have now?",
        "Kim has 9 + 3 - 2 = 10 keys. \\boxed{10}",
    ),
)


@dataclass(frozen=True)
class Problem:
    """One problem and its answer."""

    question: str
    answer: int

    def row(self) -> dict[str, Any]:
        """A line of a file of prompts: chat messages and the reference answer."""
        turns = [{"role": "system", "content": SYSTEM}]
        for question, worked in EXAMPLES:
            turns += [{"role": "user", "content": question}, {"role": "assistant", "content": worked}]
        return {"input": [*turns, {"role": "user", "content": self.question}], "label": str(self.answer)}


def problems(count: int, seed: int, held_out: bool) -> list[Problem]:
    """Distinct problems of one split; a longer list with the same seed begins with the shorter one."""
    found: dict[str, Problem] = {}
    for problem in _endless(random.Random(seed), held_out):
        found.setdefault(problem.question, problem)
        if len(found) == count:
            break
    return list(found.values())


def _endless(rng: random.Random, held_out: bool) -> Iterator[Problem]:
    while True:
        kind, a, b, c = rng.choice((0, 0, 1, 1, 2, 3, 4)), rng.randint(3, 12), rng.randint(2, 6), rng.randint(2, 6)
        name, thing = rng.choice(NAMES[held_out]), rng.choice(THINGS[held_out])
        story, numbers, answer = (
            ("has {} {thing} and buys {} more", (a, b), a + b),
            ("has {} {thing} and gives away {}", (a, b), a - b),
            ("has {} {thing}, buys {} more and gives away {}", (a, b, c), a + b - c),
            ("has {} {thing}, loses {} and then finds {}", (a, b, c), a - b + c if a > b else 0),
            ("has {} bags with {} {thing} each", (b, c), b * c),
        )[kind]
        own_split = zlib.crc32(repr(numbers).encode()) % HELD_OUT_SHARE == 0
        if answer > 0 and own_split == held_out:
            story = f"{name} {story.format(*numbers, thing=thing)}."
            yield Problem(f"{story} How many {thing} does {name} have now?", answer)
