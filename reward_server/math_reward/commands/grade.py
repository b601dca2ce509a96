"""``math-reward grade``: one completion or a file of them, without a server."""

import argparse
import io
import json
import sys

from math_reward.commands.refusal import refuse
from math_reward.grader.verdict import Mode, Options
from math_reward.limits import GradingLimits, LimitRefused, grading_limits

FILE_OPTIONS = ("output", "references_only", "completion_key", "reference_key", "prompt_key", "label_key", "workers")
"""Options that need ``--file``."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command's arguments."""
    parser = commands.add_parser(
        "grade",
        help="grade one completion, or a file",
        usage="math-reward grade [options] COMPLETION REFERENCE\n       math-reward grade [options] --file ROWS.jsonl",
        description="Grades one completion: exit code 0 if it is correct, 1 if it is not. Or, with --file, grades "
        "every row of a file and checks its references: exit code 0 if every line and every reference can be used, "
        "1 if some cannot. Exit code 2 means wrong usage.",
        epilog="Write -- before a completion or a reference that begins with a dash.",
    )
    parser.add_argument(
        "completion", metavar="COMPLETION", nargs="?", help=r"what the model wrote, such as 'So it is \boxed{42}.'"
    )
    parser.add_argument("reference", metavar="REFERENCE", nargs="?", help="the reference answer, such as 42")
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
    parser.add_argument("--json", action="store_true", help="print JSON")
    file = parser.add_argument_group("a file")
    file.add_argument(
        "--file", metavar="ROWS", help="a JSON object per line: .jsonl, .jsonl.gz, or - for standard input"
    )
    file.add_argument("--output", metavar="FILE", help="write the verdict on each row as a JSON object per line")
    file.add_argument(
        "--references-only",
        action="store_true",
        help="check only the references; this is the default for rows without a completion",
    )
    for what, usual in (
        ("completion", "completion, response, output, solution ..."),
        ("reference", "reference, answer, gold, label ..."),
        ("prompt", "prompt, question, problem, query"),
        ("label", "label, correct; true where the completion is correct"),
    ):
        file.add_argument(f"--{what}-key", metavar="NAME", help=f"the field with the {what} ({usual})")
    file.add_argument("--workers", type=int, help="grading processes (one per core)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Grades and prints; ends the process."""
    if arguments.file is None:
        for name in FILE_OPTIONS:
            if getattr(arguments, name):
                refuse(f"--{name.replace('_', '-')} works only with --file ROWS.")
        if arguments.reference is None:
            refuse("Give a completion and a reference, or --file ROWS.")
    elif arguments.completion is not None:
        refuse("Give a completion and a reference, or --file ROWS, but not both.")
    try:
        limits = grading_limits(arguments.workers, arguments.deadline)
    except LimitRefused as error:
        refuse(str(error))
    options = Options(
        mode=Mode(arguments.mode),
        rel_tol=arguments.rel_tol,
        allow_rounded=arguments.allow_rounded,
        allow_unevaluated=arguments.allow_unevaluated,
        evaluated=arguments.evaluated,
    )
    from math_reward.pool.lane import NoWorkers

    try:
        if arguments.file is None:
            _grade_one(arguments, limits, options)
        else:
            _grade_file(arguments, limits, options)
    except NoWorkers as error:
        refuse(str(error))


def _grade_one(arguments: argparse.Namespace, limits: GradingLimits, options: Options) -> None:
    from math_reward.pool.worker_pool import Item, WorkerPool

    with WorkerPool(workers=1, deadline=limits.deadline) as pool:
        grade = pool.submit(Item(arguments.completion, arguments.reference, options=options)).result().grade
    row = grade.as_dict()
    if arguments.json:
        print(json.dumps(row, ensure_ascii=False))
    else:
        for name, value in row.items():
            if value is not None:
                print(f"{name:<10}{value}")
    sys.exit(0 if grade.correct else 1)


def _grade_file(arguments: argparse.Namespace, limits: GradingLimits, options: Options) -> None:
    from math_reward.commands.grade_file import grade_file
    from math_reward.commands.rows import FileRefused

    try:
        report = grade_file(
            arguments.file,
            workers=limits.workers,
            deadline=limits.deadline,
            options=options,
            named={what: getattr(arguments, f"{what}_key") for what in ("completion", "reference", "prompt", "label")},
            references_only=arguments.references_only,
            output=arguments.output,
        )
    except FileRefused as error:
        refuse(str(error))
    except KeyboardInterrupt:
        sys.exit(130)  # The exit code of a command that Ctrl-C ended.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # A reference may be text that the terminal cannot show.
    print(json.dumps(report.as_dict()) if arguments.json else report)
    sys.exit(0 if report.all_fine else 1)


def _fraction(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return value
