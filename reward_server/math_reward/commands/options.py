"""Flags that ``math-reward grade`` and ``math-reward compare`` share: how to grade, and what the fields are called."""

import argparse
import dataclasses

from math_reward.grader.verdict import Mode, Options

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
            parser.add_argument(flag, type=_fraction, default=option.default, help=shown)
    parser.add_argument("--deadline", type=float, help="seconds that grading one completion may take (2)")


def grading_options(arguments: argparse.Namespace) -> Options:
    """What the flags of ``add_grading_options`` say."""
    given = {option.name: getattr(arguments, option.name) for option in dataclasses.fields(Options)}
    return Options(**{**given, "mode": Mode(arguments.mode)})


def add_row_options(group: argparse._ArgumentGroup) -> None:
    """Adds the flags that name the fields of rows, and the number of workers."""
    for what, usual in FIELDS.items():
        shown = f"the field with the {what} ({', '.join(usual)})"
        group.add_argument(f"--{what}-key", metavar="NAME", help=shown)
    group.add_argument("--workers", type=int, help="grading processes (one per core)")


def named_fields(arguments: argparse.Namespace) -> dict[str, str | None]:
    """The names that the flags of ``add_row_options`` give."""
    return {what: getattr(arguments, f"{what}_key") for what in FIELDS}


def _fraction(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return value
