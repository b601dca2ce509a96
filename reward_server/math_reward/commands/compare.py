"""``math-reward compare``: where this grader and Math-Verify differ on a file."""

import argparse
import importlib.util
import json
import sys
from collections import Counter
from contextlib import ExitStack

from math_reward.commands.options import add_grading_options, add_row_options, grading_options, named_fields
from math_reward.commands.refusal import refusals, refuse
from math_reward.limits import usable_cores

MATH_VERIFY_SECONDS = (1.0, 15.0)
"""CPU seconds for an ordinary row, and for one that starts again, alone: the sum of Math-Verify's own limits."""

LISTED = 20
"""How many rows that differ, and how many lines of labels, the report lists; ``--output`` has all."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command's arguments."""
    parser = commands.add_parser(
        "compare",
        help="grade a file with this grader and with Math-Verify, and show where they differ",
        description="Grades every row of a file with this grader and with Math-Verify, and shows where they differ "
        "and, where rows have labels, what each accepts and rejects wrongly. Exit code 0 if every line can be used, 1 "
        "if some cannot, 2 for wrong usage.",
    )
    parser.add_argument("--file", metavar="ROWS", required=True, help="a JSON object per line: .jsonl or .jsonl.gz")
    parser.add_argument("--output", metavar="FILE", help="write both verdicts on each row as a JSON object per line")
    add_grading_options(parser)
    add_row_options(parser.add_argument_group("fields"))
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Compares and prints; ends the process."""
    if importlib.util.find_spec("math_verify") is None:
        refuse("Math-Verify is not installed: pip install 'math-reward[math-verify]'.")
    from math_reward.commands.math_verify_grader import math_verify_grade
    from math_reward.commands.row_file import RowFile, created
    from math_reward.commands.rows import Labels, Row
    from math_reward.commands.windows import graded_in_order
    from math_reward.pool.worker_pool import WorkerPool

    kinds: Counter[tuple[str, str]] = Counter()
    ours, theirs = Labels(), Labels()
    differ: list[str] = []
    bad_lines = 0
    with refusals(), ExitStack() as stack:
        workers = arguments.workers or usable_cores()
        file = stack.enter_context(RowFile(arguments.file, grading_options(arguments), named_fields(arguments)))
        written = created(stack, arguments.output) if arguments.output else None
        soon, late = MATH_VERIFY_SECONDS
        pools = (
            stack.enter_context(WorkerPool(workers, arguments.deadline)),
            stack.enter_context(WorkerPool(workers, late, math_verify_grade, head_start=soon)),
        )
        for row, graded in graded_in_order(file, *pools):
            if not isinstance(row, Row):
                bad_lines += 1
                differ.append(f"  line {row.line}: {row.reason}")
                continue
            one, other = graded[0].grade, graded[1].grade
            kinds[one.verdict.value, other.verdict.value] += 1
            ours.add(row, one.correct)
            theirs.add(row, other.correct)
            if one.correct != other.correct:
                why = one.detail or one.rule or ""
                shown = f"ours {one.verdict.value}, Math-Verify {other.verdict.value}: {one.answer!r} for"
                differ.append(f"  line {row.line}: {shown} {one.reference!r}. {why}".rstrip())
            if written is not None:
                pair = {"line": row.line, "ours": graded[0].as_dict(), "math_verify": graded[1].as_dict()}
                written.write(json.dumps(pair) + "\n")
    print("ours               Math-Verify             rows")
    for (mine, others), count in kinds.most_common():
        print(f"{mine:<18} {others:<18} {count:>9,}")
    for line in (*ours.report("ours         accuracy", LISTED), *theirs.report("Math-Verify  accuracy", LISTED)):
        print(line)
    for line in differ[:LISTED]:
        print(line)
    if len(differ) > LISTED:
        print(f"  and {len(differ) - LISTED:,} more, which --output has")
    sys.exit(1 if bad_lines else 0)
