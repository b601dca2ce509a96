"""Checks a task before anything is trained on it, and shows what it looks like. Takes seconds.

    python launch/laptop/check.py docs/examples/counting.py
    python launch/laptop/check.py last_digit --prompts 960

The warm start does the same first. A task is refused if it gives too few different problems, if prompts or responses
are longer than its limits, or if the grader does not accept its own worked responses.
"""

from __future__ import annotations

import argparse
import random
from typing import Any

import policy
from math_reward.grader import Verdict, grade
from task import HELD_OUT_PROMPTS, QUICKSTART, SPLIT_SEEDS, Task, load

LOOKED_AT = 256
"""Problems of each split whose texts are made, measured and graded."""
SHOWN = 2
CHECKED_SEED = 3


def check(task: Task, prompts: int) -> str:
    """Looks at a task's problems, and describes it in a few lines.

    Args:
        task: the task.
        prompts: how many different problems training needs.

    Raises:
        ValueError: the policy cannot be trained on it; half a sentence.
    """
    _check_settings(task)
    tokenizer = policy.build_tokenizer(task)
    rng = random.Random(CHECKED_SEED)
    _given(task, "draw", rng)  # before thousands are drawn
    train = task.expressions(prompts, SPLIT_SEEDS["train"], held_out=False)
    held_out = task.expressions(HELD_OUT_PROMPTS, SPLIT_SEEDS["heldout"], held_out=True)
    right, shown = 0, []
    looked_at = train[:LOOKED_AT] + held_out[:LOOKED_AT]
    for expression in looked_at:
        question, answer, worked = (_text(task, method, expression) for method in ("question", "answer", "worked"))
        careless = _text(task, "demonstration", expression, rng)
        prompt = len(tokenizer(policy.chat(task, tokenizer, expression)).input_ids)
        for method, text in (("worked", worked), ("demonstration", careless)):
            _check_lengths(task, prompt, len(tokenizer(text + policy.END).input_ids), method, expression)
        graded = grade(worked, answer)
        if graded.verdict is Verdict.BAD_REFERENCE:
            raise ValueError(
                f"answer({str(expression)!r}) is {answer!r}, which the grader cannot read: {graded.detail}"
            )
        if graded.verdict is not Verdict.CORRECT:
            raise ValueError(
                f"worked({str(expression)!r}) ends in {worked[-40:]!r} and answer({str(expression)!r}) is {answer!r}: "
                f"to the grader {graded.verdict.value}; correct one of the two; without a slip, worked has to be right"
            )
        right += grade(careless, answer).verdict is Verdict.CORRECT
        if len(shown) < SHOWN:
            shown.append(f"    {question}  answer {answer}  worked: {worked!r}\n      a demonstration: {careless!r}")
    share = right / len(looked_at)
    return "\n".join(
        [
            f"  the task {task.name}: the grader accepts its worked responses, and texts fit its limits; for example",
            *shown,
            f"  {share:.0%} of the demonstrations are right; pass@1 begins there or below (good: 20 to 50 %).",
        ]
    )


def _check_settings(task: Task) -> None:
    for name, kind in (
        ("name", str),
        ("words", tuple),
        ("layers", int),
        ("max_length", int),
        ("warm_start_steps", int),
    ):
        value = getattr(task, name, None)
        if not isinstance(value, kind) or not value:
            found = "it is missing" if value is None else f"it is {value!r}"
            what = {str: "a text", tuple: "a tuple of texts", int: "a number above 0"}[kind]
            raise ValueError(f"{name} has to be {what}; {found}")
    if not all(isinstance(word, str) and word for word in task.words):
        raise ValueError(f"words has to be a tuple of texts; it is {task.words!r}")


def _given(task: Task, method: str, *arguments: Any) -> Any:
    """What a method of the task gives.

    Raises:
        ValueError: it raises an exception, or gives something that cannot be hashed.
    """
    try:
        value = getattr(task, method)(*arguments)
        hash(value)
    except Exception as error:
        called = f"{method}({str(arguments[0])!r})" if method != "draw" else "draw"
        raise ValueError(f"{called} raises {type(error).__name__}: {error}") from error
    return value


def _text(task: Task, method: str, expression: Any, *others: Any) -> str:
    value = _given(task, method, expression, *others)
    if not isinstance(value, str):
        raise ValueError(f"{method}({str(expression)!r}) gives {value!r}, and has to give a text: str(...)")
    return value


def _check_lengths(task: Task, prompt: int, response: int, method: str, expression: Any) -> None:
    """Raises ValueError where there are more tokens than a limit allows."""
    of = f"{method}({str(expression)!r})"
    if response > task.max_new_tokens:
        raise ValueError(
            f"{of} has {response} tokens with the one that ends it, and max_new_tokens is {task.max_new_tokens}: "
            "raise it in the task, or shorten the work"
        )
    if (needed := prompt + task.max_new_tokens) > task.max_length:
        raise ValueError(
            f"the prompt of {str(expression)!r} has {prompt} tokens and a response may have {task.max_new_tokens} "
            f"(max_new_tokens), but max_length is {task.max_length}: raise it to {needed} or more"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", help=f"{QUICKSTART}, or a .py file with a TASK")
    parser.add_argument("--prompts", type=int, default=960, help="training prompts: 16 for each step (960)")
    args = parser.parse_args()
    try:
        print(check(load(args.task), args.prompts))
    except ValueError as error:
        raise SystemExit(f"{args.task}: {error}.") from None


if __name__ == "__main__":
    main()
