"""``math-reward grade``: one completion, without a server."""

import argparse
import json
import sys

from math_reward.commands.refusal import refuse


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command's arguments."""
    parser = commands.add_parser(
        "grade",
        help="grade one completion",
        description="Grades one completion. Exit code 0 where it is correct, 1 where it is not.",
        epilog="Write -- before a completion or a reference that begins with a dash.",
    )
    parser.add_argument(
        "completion", metavar="COMPLETION", help=r"what the model wrote, such as 'So it is \boxed{42}.'"
    )
    parser.add_argument("reference", metavar="REFERENCE", help="the reference answer, such as 42")
    parser.add_argument("--deadline", type=float, help="seconds that grading may take (2)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Grades and prints; ends the process."""
    from math_reward.settings import SettingsError, load_settings
    from math_reward.workers import Item, WorkerPool

    try:
        settings = load_settings(deadline=arguments.deadline, host="127.0.0.1")  # Nothing is served here.
    except SettingsError as error:
        refuse(str(error))
    with WorkerPool(workers=1, deadline=settings.deadline) as pool:
        grade = pool.submit(Item(arguments.completion, arguments.reference)).result().grade
    row = {
        "verdict": grade.verdict.value,
        "answer": grade.answer,
        "reference": grade.reference,
        "reward": grade.reward,
        "stage": None if grade.stage is None else grade.stage.value,
        "detail": grade.detail,
    }
    if arguments.json:
        print(json.dumps(row, ensure_ascii=False))
    else:
        for name, value in row.items():
            if value is not None:
                print(f"{name:<10}{value}")
    sys.exit(0 if grade.correct else 1)
