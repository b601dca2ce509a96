"""The tasks of a laptop: what is right by a second reading, demonstrations that slip as often as they are said to, and
what is said of a task that no policy can be trained on."""

import random
import re
from pathlib import Path
from typing import Any

import pytest

import last_digit
from check import check
from last_digit import Expression
from task import SPLIT_SEEDS, Task, load

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "examples" / "counting.py"

digits = last_digit.TASK


def test_the_last_digit_is_that_of_pythons_own_arithmetic() -> None:
    assert str(Expression((2, 3, 4, 5), "*+*")) == "2*3+4*5"
    for expression in digits.expressions(500, seed=3, held_out=False):
        value = eval(str(expression))  # an independent reading of the precedence; the text is digits, + and * only
        assert digits.answer(expression) == str(value % 10)


def test_a_worked_response_reduces_one_pair_a_line_and_a_slip_takes_the_leftmost() -> None:
    assert digits.worked(Expression((4, 7, 9), "+*")) == "7*9=3\n4+3=7\n\\boxed{7}"
    assert digits.worked(Expression((4, 7, 9), "+*"), 1.0, random.Random(0)) == "4+7=1\n1*9=9\n\\boxed{9}"
    for expression in digits.expressions(300, seed=5, held_out=False):
        *lines, last = digits.worked(expression).split("\n")
        assert len(lines) == len(expression.operators)
        assert last == f"\\boxed{{{digits.answer(expression)}}}"
        for line in digits.worked(expression, 0.6, random.Random(1)).split("\n")[:-1]:
            left, result = line.split("=")
            assert eval(left) % 10 == int(result), "a slip leaves the arithmetic right"


def test_no_held_out_expression_is_ever_trained_on() -> None:
    train = digits.expressions(3000, seed=1, held_out=False)
    held_out = digits.expressions(400, seed=1, held_out=True)
    assert not set(train) & set(held_out)
    assert (len(set(train)), len(set(held_out))) == (3000, 400)
    rng = random.Random(0)
    assert not any(digits.is_held_out(digits.sample(rng, held_out=False)) for _ in range(3000))


# A task of one's own, and the check of a task before anything is trained


@pytest.mark.parametrize(("name", "share"), [("last_digit", 0.5), (str(EXAMPLE), 0.4)])
def test_the_projects_own_tasks_pass_the_check_which_shows_problems_and_the_share_of_right_demonstrations(
    name: str, share: float
) -> None:
    said = check(load(name), prompts=960)
    expression = load(name).expressions(1, SPLIT_SEEDS["train"], held_out=False)[0]
    assert load(name).question(expression) in said
    (found,) = re.findall(r"(\d+)% of the demonstrations are right", said)
    assert abs(int(found) / 100 - share) < 0.1


def with_change(**changes: Any) -> Task:
    """The documented task with other attributes or methods."""
    return type("Changed", (type(load(str(EXAMPLE))),), changes)()


def of_few_letters(self: Task, rng: random.Random) -> str:
    return "".join(rng.choice("abc") for _ in range(5))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"draw": of_few_letters}, r"draw .* \d{2} .*held-out .* 400 "),
        ({"draw": lambda self, rng: rng.choice("ab")}, "draw .* [012] .*training, and 96"),
        ({"draw": lambda self, rng: ["a"]}, "draw raises TypeError"),
        ({"max_length": 24}, r"max_length is 24: .* \d+ "),
        ({"max_new_tokens": 20}, r"\d+ tokens .*max_new_tokens is 20"),
        ({"answer": lambda self, text: text.count("a")}, r"answer\('\w+'\) gives \d"),
        ({"answer": lambda self, text: "none of it, sadly"}, r"worked\(.* wrong"),
        ({"answer": lambda self, text: ""}, r"answer\('\w+'\) is ''"),
        ({"question": lambda self, text: self.asked}, r"question\('\w+'\) raises AttributeError"),
        ({"warm_start_steps": None}, "warm_start_steps .*missing"),
        ({"words": "user"}, "words .*'user'"),
        ({"words": ("user", 1)}, r"words .*\('user', 1\)"),
    ],
)
def test_a_task_that_no_policy_can_be_trained_on_is_refused_in_one_sentence(
    changes: dict[str, Any], named: str
) -> None:
    with pytest.raises(ValueError, match=named) as refusal:
        check(with_change(**changes), prompts=96)
    assert "\n" not in str(refusal.value)
