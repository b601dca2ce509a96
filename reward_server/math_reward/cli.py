"""The command line: ``math-reward serve`` and ``math-reward grade``."""

import argparse

from math_reward import __version__
from math_reward.commands import grade, serve


def main() -> None:
    """Entry point of ``math-reward``. Exit codes: 0 done (or correct), 1 not correct, 2 wrong usage."""
    parser = argparse.ArgumentParser(
        prog="math-reward", description="Grades math completions against reference answers."
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="{serve,grade}")
    serve.add_parser(commands)
    grade.add_parser(commands)
    arguments = parser.parse_args()
    arguments.run(arguments)
