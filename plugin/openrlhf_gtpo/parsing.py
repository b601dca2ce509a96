"""The parser of our commands: for a flag or a sub-command that does not exist it suggests the nearest. How they end:
an error of ours is one sentence and an exit status."""

import argparse
import importlib
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from math_reward.nearest import did_you_mean
from openrlhf_gtpo.errors import SettingsError, UserError

Commands = Mapping[str, tuple["str | Commands", str]]


class Parser(argparse.ArgumentParser):
    """argparse's, with a suggestion for an unknown flag."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:  # argparse has overloads
        parsed, rest = self.parse_known_args(args, namespace)
        if rest:
            self.error(" ".join(unknown(rest, self)))
        return parsed


def unknown(
    words: Sequence[str], parser: argparse.ArgumentParser, renamed: Mapping[str, str] = MappingProxyType({})
) -> list[str]:
    """One sentence for each flag of these words, and for each value that follows none.

    Args:
        words: flags with their values that the parser did not recognise, in order.
        parser: has all the flags that exist.
        renamed: flags of earlier versions, and what they are called now.
    """
    known = [option for action in parser._actions for option in action.option_strings]
    sentences = []
    follows_unknown = False
    for word in words:
        is_flag = word.startswith("-")
        if not is_flag and follows_unknown:  # its value
            continue
        name = word.partition("=")[0]
        said = f"There is no flag {name}" if is_flag else f"{word!r} belongs to no flag"
        now = f": it is {renamed[name]} now." if name in renamed else did_you_mean(name, known, "--help lists them")
        sentences.append(said + now)
        follows_unknown = is_flag
    return sentences


def dispatch(program: str, description: str, commands: Commands, argv: Sequence[str]) -> int:
    """Run one of several commands.

    Args:
        program: its name, as people type it.
        description: one line for its help.
        commands: name -> the module whose ``main`` takes the rest of the command line, or further commands; and a line
            for the help. Only the module of the chosen command is imported.
        argv: the command's name and its arguments.

    Returns:
        The command's exit status; 2, with the sentence, after a SettingsError, and 1 after a UserError or where a
        package is not installed.

    Raises:
        SystemExit: 0 after ``--help``; 2, with a sentence, for a command that does not exist.
    """
    parser = argparse.ArgumentParser(
        prog=program, description=description, epilog=f"{program} COMMAND --help says what a command takes."
    )
    names = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (_, what) in commands.items():
        names.add_parser(name, help=what, add_help=False)
    first = list(argv[:1])
    if first and not first[0].startswith("-") and first[0] not in commands:
        parser.error(f"There is no command {first[0]}{did_you_mean(first[0], commands, '--help lists them')}")
    module, what = commands[parser.parse_args(first).command]
    if not isinstance(module, str):
        return dispatch(f"{program} {first[0]}", what, module, argv[1:])
    try:
        return importlib.import_module(module).main(list(argv[1:]))
    except (SettingsError, UserError) as error:
        print(f"{program} {first[0]}: error: {error}", file=sys.stderr)
        return 2 if isinstance(error, SettingsError) else 1
    except ModuleNotFoundError as error:
        if str(error.name).startswith("openrlhf_gtpo"):
            raise
        print(
            f"{program} {first[0]}: error: It needs the Python package {error.name}, which comes with the trainer: "
            "install that in a clone of the repository by `bash launch/setup_gpu.sh` (setup.sh without a GPU).",
            file=sys.stderr,
        )
        return 1
