"""``math-reward compare``: where this grader and Math-Verify differ on a file."""

import argparse
import importlib.util
import sys

from math_reward.commands.options import add_grading_options, add_row_options, grading_options, named_fields
from math_reward.commands.refusal import refusals, refuse
from math_reward.limits import grading_limits

NOT_INSTALLED = "Math-Verify is not installed: pip install 'math-reward[math-verify]'."


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command's arguments."""
    parser = commands.add_parser(
        "compare",
        help="grade a file with this grader and with Math-Verify, and show where they differ",
        description="Grades every row of a file with this grader and with Math-Verify, and shows where they differ. "
        "Where rows have labels, it shows what each grader accepts and rejects wrongly. Exit code 0 if every line can "
        "be used, 1 if some cannot, 2 for wrong usage.",
    )
    parser.add_argument(
        "--file",
        metavar="ROWS",
        required=True,
        help="a JSON object per line: .jsonl, .jsonl.gz, or - for standard input",
    )
    parser.add_argument("--output", metavar="FILE", help="write both verdicts on each row as a JSON object per line")
    parser.add_argument("--page", metavar="FILE", help="write the differences as an HTML page that needs no network")
    parser.add_argument(
        "--math-verify-deadline", type=float, help="CPU seconds that Math-Verify may take for one completion (15)"
    )
    add_grading_options(parser)
    add_row_options(parser.add_argument_group("fields"))
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Compares and prints; ends the process."""
    if importlib.util.find_spec("math_verify") is None:
        refuse(NOT_INSTALLED)
    from contextlib import ExitStack

    from math_reward.commands.compare_file import ON_PAGE, compare_file
    from math_reward.commands.math_verify_grader import DEADLINE_SECONDS
    from math_reward.commands.output import created, print_report
    from math_reward.page.comparison import page

    with refusals(), ExitStack() as stack:
        limits = grading_limits(arguments.workers, arguments.deadline)
        theirs = arguments.math_verify_deadline
        their_deadline = DEADLINE_SECONDS if theirs is None else grading_limits(deadline=theirs).deadline
        written = created(stack, arguments.page) if arguments.page else None
        comparison = compare_file(
            arguments.file,
            workers=limits.workers,
            deadline=limits.deadline,
            math_verify_deadline=their_deadline,
            options=grading_options(arguments),
            named=named_fields(arguments),
            output=arguments.output,
        )
        if written is not None:
            counts = {kind.value: comparison.kinds[kind] for kind in comparison.kinds}
            rows = [one.as_dict() for one in comparison.differences]
            written.write(page(arguments.file, comparison.rows, counts, rows, ON_PAGE))
    print_report(comparison)
    sys.exit(1 if comparison.bad_lines else 0)
