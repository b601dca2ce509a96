"""The command line: ``math-reward serve``, ``math-reward grade`` and ``math-reward compare``."""

import argparse
import io
import sys
from typing import NoReturn

from math_reward import __version__
from math_reward.commands import compare, grade, serve
from math_reward.commands.refusal import refuse


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Ends with exit code 2 and two sentences. It leaves out the usage, which is as long as the list of flags."""
        refuse(f"{message[0].upper()}{message[1:].rstrip('.')}. See `{self.prog} --help`.")


def main() -> None:
    """Entry point of ``math-reward``. Exit codes: 0 done (or correct), 1 not correct, 2 wrong usage."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # An answer may be text that the terminal cannot show.
    what = "Grades math completions against reference answers."
    parser: argparse.ArgumentParser = _Parser(prog="math-reward", description=what)
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="{serve,grade,compare}")
    serve.add_parser(commands)
    grade.add_parser(commands)
    compare.add_parser(commands)
    if sys.argv[1:2] == ["serve"]:
        serve.add_settings(commands.choices["serve"])
    arguments = parser.parse_args()
    arguments.run(arguments)
