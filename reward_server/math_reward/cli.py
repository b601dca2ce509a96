"""The command line: ``math-reward serve``, ``math-reward grade`` and ``math-reward compare``."""

import argparse
import sys
from typing import NoReturn

from math_reward import __version__
from math_reward.commands import compare, grade, serve
from math_reward.commands.refusal import refuse
from math_reward.nearest import no_such, sentence


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Ends with exit code 2 and two sentences. It leaves out the usage, which is as long as the list of flags."""
        refuse(f"{message[0].upper()}{message[1:].rstrip('.')}. See `{self.prog} --help`.")


def main() -> None:
    """Entry point of ``math-reward``. Exit codes: 0 done (or correct), 1 not correct, 2 wrong usage."""
    what = "Grades math completions against reference answers."
    parser: argparse.ArgumentParser = _Parser(prog="math-reward", description=what)
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="{serve,grade,compare}")
    serve.add_parser(commands)
    grade.add_parser(commands)
    compare.add_parser(commands)
    first = next(iter(sys.argv[1:]), "")
    if first == "serve":
        serve.add_settings(commands.choices[first])
    if first.startswith("--") and not any(flag.startswith(first) for flag in parser._option_string_actions):
        refuse(_unknown(first, [flag for flag in parser._option_string_actions if flag.startswith("--")], parser.prog))
    if first and not first.startswith("-") and first not in commands.choices:
        refuse(sentence(no_such("command", first, commands.choices)))
    arguments, unknown = parser.parse_known_args()
    if unknown:
        flags = [flag for flag in commands.choices[arguments.command]._option_string_actions if flag.startswith("--")]
        refuse(_unknown(unknown[0], flags, f"math-reward {arguments.command}"))
    arguments.run(arguments)


def _unknown(argument: str, flags: list[str], program: str) -> str:
    """The message for an argument that the parser does not know."""
    name = argument.partition("=")[0]
    if not name.startswith("--"):
        end = ": write -- before a text that begins with a dash" if name.startswith("-") else ""
        return f"{argument!r} is one argument too many{end}. See `{program} --help`."
    said = no_such("flag", name, flags)
    return sentence(said) if "did you mean" in said else f"There is no flag {name!r}. `{program} --help` lists them."
