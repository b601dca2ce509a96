"""Flags that ``math-reward grade`` and ``math-reward compare`` share: how to grade, and what the fields are called."""

import argparse
import dataclasses
from collections.abc import Callable

from math_reward.grader.verdict import Mode, Options
from math_reward.limits import DEADLINE, MAX_DEADLINE, MAX_WORKERS, MIN_DEADLINE

STANDARD = "-"
"""The name of standard input, and of standard output, where a file is asked for."""

FIELDS = {
    "completion": ("completion", "response", "output", "generation", "prediction", "solution"),
    "reference": ("reference", "reference_answer", "answer", "gold", "ground_truth", "target", "label"),
    "prompt": ("prompt", "question", "problem", "query"),
    "label": ("label", "correct", "is_correct"),
}
"""What a row has, and the names to look for, in this order, where the user names none. A label is true where the
completion is correct."""


def add_grading_options(parser: argparse.ArgumentParser) -> None:
    """Adds the flags that say how to grade."""
    for option in dataclasses.fields(Options):
        flag, shown = f"--{option.name.replace('_', '-')}", option.metadata["help"]
        if option.type is bool:
            parser.add_argument(flag, action="store_true", help=shown)
        elif option.type is Mode:
            parser.add_argument(flag, choices=[mode.value for mode in Mode], default=option.default, help=shown)
        else:
            parser.add_argument(flag, type=_between(0.0, 1.0), default=option.default, help=shown)
    shown = "CPU seconds that grading one completion may take (2)"
    parser.add_argument("--deadline", type=_between(MIN_DEADLINE, MAX_DEADLINE), default=DEADLINE, help=shown)


def grading_options(arguments: argparse.Namespace) -> Options:
    """What the flags of ``add_grading_options`` say."""
    given = {option.name: getattr(arguments, option.name) for option in dataclasses.fields(Options)}
    return Options(**{**given, "mode": Mode(arguments.mode)})


def add_row_options(group: argparse._ArgumentGroup) -> None:
    """Adds the flags that name the fields of rows, and the number of workers."""
    for what, usual in FIELDS.items():
        shown = f"the field with the {what} ({', '.join(usual)})"
        group.add_argument(f"--{what}-key", metavar="NAME", help=shown)
    group.add_argument("--workers", type=_between(1, MAX_WORKERS), help="grading processes (one per core)")


def named_fields(arguments: argparse.Namespace) -> dict[str, str | None]:
    """The names that the flags of ``add_row_options`` give."""
    return {what: getattr(arguments, f"{what}_key") for what in FIELDS}


def _between(low: float, high: float) -> Callable[[str], float]:
    """Reads a number of the kind of ``low`` that is not outside of these bounds."""
    kind = type(low)

    def read(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is no number") from None
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{text} is not between {low:g} and {high:g}")
        return value

    return read
