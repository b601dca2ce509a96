"""Flags that ``math-reward grade`` and ``math-reward compare`` share: how to grade, and what the fields are called."""

import argparse

from math_reward.grader.verdict import Mode, Options

STANDARD = "-"
"""The name of standard input, and of standard output, where a file is asked for."""

FIELDS = {
    "completion": "completion, response, output, solution ...",
    "reference": "reference, answer, gold, label ...",
    "prompt": "prompt, question, problem, query",
    "label": "label, correct; true where the completion is correct",
}
"""What a row has, and the usual names of each."""


def add_grading_options(parser: argparse.ArgumentParser) -> None:
    """Adds the flags that say how to grade."""
    parser.add_argument("--mode", choices=[mode.value for mode in Mode], default=Mode.LENIENT.value,
                        help="strict: only an answer in a box; lenient: also in prose (lenient)")  # fmt: skip
    parser.add_argument("--rel-tol", type=_fraction, default=0.0, help="relative tolerance, 0 to 1 (0)")
    parser.add_argument("--allow-rounded", action="store_true", help="accept an answer that is the reference, rounded")
    parser.add_argument(
        "--allow-unevaluated",
        action="store_true",
        help="accept a sum, an integral or another operation that is left undone, by its value",
    )
    parser.add_argument(
        "--evaluated",
        action="store_true",
        help="if the reference is a number, accept only a number in lowest terms",
    )
    parser.add_argument("--deadline", type=float, help="seconds that grading one completion may take (2)")


def grading_options(arguments: argparse.Namespace) -> Options:
    """What the flags of ``add_grading_options`` say."""
    return Options(
        mode=Mode(arguments.mode),
        rel_tol=arguments.rel_tol,
        allow_rounded=arguments.allow_rounded,
        allow_unevaluated=arguments.allow_unevaluated,
        evaluated=arguments.evaluated,
    )


def add_row_options(group: argparse._ArgumentGroup) -> None:
    """Adds the flags that name the fields of rows, and the number of workers."""
    for what, usual in FIELDS.items():
        group.add_argument(f"--{what}-key", metavar="NAME", help=f"the field with the {what} ({usual})")
    group.add_argument("--workers", type=int, help="grading processes (one per core)")


def named_fields(arguments: argparse.Namespace) -> dict[str, str | None]:
    """The names that the flags of ``add_row_options`` give."""
    return {what: getattr(arguments, f"{what}_key") for what in FIELDS}


def _fraction(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return value
