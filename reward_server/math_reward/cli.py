"""The command line: ``math-reward serve``, ``grade``, ``compare`` and ``rules``."""

import argparse
import io
import os
import sys
from typing import NoReturn

from math_reward import __version__
from math_reward.commands import compare, grade, rules, serve
from math_reward.commands.refusal import refuse
from math_reward.nearest import Parser


class _Parser(Parser):
    def error(self, message: str) -> NoReturn:
        """Ends with exit code 2 and the sentence. It leaves out the usage, which is as long as the list of flags."""
        said = f"{message[0].upper()}{message[1:]}"
        refuse(said if said[-1] in ".?" else f"{said}. See `{self.prog} --help`.")


def main() -> None:
    """Entry point of ``math-reward``. Exit codes: 0 done (or correct), 1 not correct, 2 wrong usage."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # An answer may be text that the terminal cannot show.
    what = "Grades math completions against reference answers."
    parser: argparse.ArgumentParser = _Parser(prog="math-reward", description=what)
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="{serve,grade,compare,rules}")
    serve.add_parser(commands)
    grade.add_parser(commands)
    compare.add_parser(commands)
    rules.add_parser(commands)
    name, words = sys.argv[1:2], sys.argv[2:]
    if name == ["serve"]:
        serve.add_settings(commands.choices["serve"])
    chosen = commands.choices.get("".join(name))
    try:
        try:
            arguments = chosen.parse_args(words) if chosen else parser.parse_args(name)
            arguments.run(arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # math-reward rules | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # where Python writes what is left at its end
        sys.exit(0)
