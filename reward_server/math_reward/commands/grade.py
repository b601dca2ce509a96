"""``math-reward grade``: one completion, a file or a stream of them, without a server."""

import argparse
import json
import multiprocessing
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

from math_reward.commands.options import STANDARD, add_grading_options, add_row_options, grading_options, named_fields
from math_reward.commands.refusal import refusals, refuse
from math_reward.grader import Grade, Options, Verdict, grade
from math_reward.limits import usable_cores

FILE_OPTIONS = ("output", "completion_key", "reference_key", "prompt_key", "label_key", "workers")
"""Options that need ``--file``."""

BROKEN_PIPE = 141
"""The exit code where the reader has gone, as a shell gives it for a command that SIGPIPE ended."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command's arguments."""
    parser = commands.add_parser(
        "grade",
        help="grade one completion, or a file",
        usage="math-reward grade [options] COMPLETION REFERENCE\n"
        "       math-reward grade [options] --file ROWS.jsonl\n"
        "       math-reward grade [options] - < ROWS.jsonl > VERDICTS.jsonl",
        description="Grades one completion: exit code 0 if it is correct, 1 if it is not. Or, with --file, grades "
        "every row of a file and checks its references, or these alone where rows have no completion: exit code 0 if "
        "every line and every reference can be used, 1 if some cannot. Or, with -, writes a verdict for each line of "
        "standard input, in order and as soon as it is ready; a line that cannot be used gets a line with "
        '"error" in its place. Exit code 2 means wrong usage.',
        epilog="Write -- before a completion or a reference that begins with a dash.",
    )
    parser.add_argument(
        "completion", metavar="COMPLETION", nargs="?", help=r"what the model wrote, such as 'So it is \boxed{42}.'"
    )
    parser.add_argument("reference", metavar="REFERENCE", nargs="?", help="the reference answer, such as 42")
    add_grading_options(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    file = parser.add_argument_group("a file")
    file.add_argument(
        "--file", metavar="ROWS", help="a JSON object per line: .jsonl, .jsonl.gz, or - for standard input"
    )
    file.add_argument(
        "--output",
        metavar="FILE",
        help="write the verdict on each row as a JSON object per line; - for standard output, without the report",
    )
    add_row_options(file)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Grades and prints; ends the process."""
    if arguments.completion == STANDARD and arguments.reference is None and arguments.file is None:
        arguments.completion, arguments.file = None, STANDARD
        arguments.output = arguments.output or STANDARD
    if arguments.file is None:
        for name in FILE_OPTIONS:
            if getattr(arguments, name):
                refuse(f"--{name.replace('_', '-')} works only with --file ROWS.")
        if arguments.reference is None:
            refuse("Give a completion and a reference, or --file ROWS.")
    elif arguments.completion is not None:
        refuse("Give a completion and a reference, or --file ROWS, but not both.")
    if arguments.output == STANDARD and arguments.json:
        refuse("--json is for the report, which --output - leaves out: drop one of the two.")
    with refusals():
        options = grading_options(arguments)
        if arguments.file is None:
            _grade_one(arguments, options)
        _grade_file(arguments, options)


def _grade_one(arguments: argparse.Namespace, options: Options) -> NoReturn:
    graded = _in_a_fork(lambda: grade(arguments.completion, arguments.reference, options=options), arguments.deadline)
    if graded is None:
        detail = f"Grading did not end within {arguments.deadline:g} s of CPU time."
        graded = Grade(Verdict.TIMEOUT, None, arguments.reference, detail)
    row = {**graded.as_dict(), "rule": graded.rule and graded.rule.replace("``", "")}
    if arguments.json:
        print(json.dumps(row))
    else:
        for name, value in row.items():
            if value is not None and name != "span":
                print(f"{name:<10}{value}")
    sys.exit(0 if graded.correct else 1)


def _in_a_fork(call: Callable[[], Grade], cpu_seconds: float) -> Grade | None:
    """What ``call`` returns, in a fork of this process that the kernel ends after so much CPU time; None if it did.
    A pool of workers would take half a second to start.
    """
    from math_reward.pool.worker import limit_memory

    receiver, sender = multiprocessing.Pipe(duplex=False)

    def work() -> None:
        limit_memory()
        signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
        sender.send(call())

    process = multiprocessing.get_context("fork").Process(target=work, daemon=True)
    process.start()
    sender.close()
    try:
        graded: Grade = receiver.recv()
        return graded
    except EOFError:
        process.join()
        if process.exitcode == -signal.SIGPROF:
            return None
        refuse(f"The grader ended with exit code {process.exitcode}.")


def _grade_file(arguments: argparse.Namespace, options: Options) -> NoReturn:
    from math_reward.commands.grade_file import grade_file

    workers, named = arguments.workers or usable_cores(), named_fields(arguments)
    try:
        report = grade_file(arguments.file, workers, arguments.deadline, options, named, arguments.output)
    except BrokenPipeError:
        sys.exit(BROKEN_PIPE)
    if arguments.output != STANDARD:
        print(json.dumps(report.as_dict()) if arguments.json else report)
    sys.exit(0 if report.all_fine else 1)
