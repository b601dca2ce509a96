"""The command line of training, read without OpenRLHF's imports, so that a mistyped flag is reported at once.

OpenRLHF's parser is in the ``__main__`` block of its script, after imports of torch, DeepSpeed and vLLM that take a
quarter of a minute. The statements that build the parser need the standard library alone, so they are taken from the
script's source and run by themselves. A test compares the result with the parser of the whole script. The statements
behind the parser check the command line and complete it: they too are run by themselves, so that the driver may call
the script's ``train`` with what comes out."""

import argparse
import ast
import contextlib
import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NoReturn

from math_reward.nearest import did_you_mean
from openrlhf_gtpo.algorithms.table import in_a_file, line_of
from openrlhf_gtpo.algorithms.user_file import FileUnusable
from openrlhf_gtpo.driver.flags import add_flags
from openrlhf_gtpo.errors import SettingsError
from openrlhf_gtpo.openrlhf_internals import CLI, OpenRLHFMismatch, source_of
from openrlhf_gtpo.parsing import unknown
from openrlhf_gtpo.settings import Settings

PROGRAM = "openrlhf-gtpo train"

USAGE = f"""{PROGRAM} --actor.model_name_or_path DIR_OR_ID --data.prompt_dataset FILE [--preset NAME] [flags]
       {PROGRAM} --help  lists every flag with its default"""


RENAMED = {
    "--pretrain": "--actor.model_name_or_path",
    "--reward_pretrain": "--reward.model_name_or_path",
    "--actor_learning_rate": "--actor.adam.lr",
    "--critic_learning_rate": "--critic.adam.lr",
    "--generate_max_len": "--rollout.max_new_tokens",
    "--prompt_max_len": "--data.max_len",
    "--micro_train_batch_size": "--train.micro_batch_size",
    "--micro_rollout_batch_size": "--rollout.micro_batch_size",
    "--save_path": "--ckpt.output_dir",
    "--bf16": "--ds.param_dtype",
    "--flash_attn": "--ds.attn_implementation",
    "--use_wandb": "--logger.wandb.enable",
    "--async_train": "--train.async_enable",
}
"""Flags of OpenRLHF before 0.11 that are unlike their new names."""

ELSEWHERE = {"algo.advantage.estimator": {"grpo": "group_norm"}}
"""Values by the names that others give them."""


class FlagError(SettingsError):
    """A flag that does not exist, or a value that its flag does not take."""


@dataclass(frozen=True)
class CommandLine:
    """A parsed command line."""

    flags: dict[str, Any]
    """OpenRLHF's flat flags and ours: ``flags["algo.kl.init_coef"]``."""
    given: frozenset[str]
    """Names of the flags that the command line has; all others have their defaults."""


def parse(arguments: Sequence[str]) -> CommandLine:
    """Read OpenRLHF's flags and ours.

    Args:
        arguments: without the program's name, with a preset expanded to its flags.

    Raises:
        FlagError: flags do not exist, one sentence each with the nearest that do; or a value is refused by argparse.
        SystemExit: after ``--help``.
    """
    _load_estimator(arguments)
    made = parser()
    args, rest = made.parse_known_args(list(arguments))
    if rest:
        raise FlagError("\n".join(unknown(rest, made, RENAMED)))
    untouched = object()
    seen = made.parse_args(list(arguments), argparse.Namespace(**dict.fromkeys(vars(args), untouched)))
    given = frozenset(name for name, value in vars(seen).items() if value is not untouched)
    return CommandLine(vars(args), given)


def _load_estimator(arguments: Sequence[str]) -> None:
    """Load the estimator's file where the command line names one, so that the parser knows its flags."""
    finder = _Parser(add_help=False)
    finder.add_argument("--algo.advantage.estimator", dest="name", default="")
    name = finder.parse_known_args(list(arguments))[0].name
    try:
        line_of(name)
    except FileUnusable as error:
        raise FlagError(f"--algo.advantage.estimator: {error}.") from error


def parser() -> argparse.ArgumentParser:
    """OpenRLHF's parser with our flags; every flag's help shows its default.

    Raises:
        OpenRLHFMismatch: OpenRLHF's script has no parser in the place where 0.11 has it.
    """
    made = openrlhfs_parser()
    add_flags(made)
    made.prog, made.usage = PROGRAM, USAGE
    for action in made._actions:
        if action.default is not argparse.SUPPRESS and "default:" not in (action.help or ""):
            action.help = f"{action.help or ''} (default: {_shown(action)})".lstrip()
    return made


def defaults() -> dict[str, Any]:
    """The flags of an empty command line: OpenRLHF's flat flags and ours."""
    return vars(parser().parse_args([]))


def settled(settings: Settings) -> SimpleNamespace:
    """OpenRLHF's nested ``args`` as its script gives them to ``train``: checked and completed by its own statements.
    Ours, ``args.plugin``, are beside them.

    Raises:
        AssertionError: the script refuses them.
    """
    script = _script()
    names: dict[str, Any] = {"args": settings.nested(), "hierarchize": lambda args: args}
    script.run(script.imports, names)
    script.run([statement for statement in script.checks if not isinstance(statement, ast.ImportFrom)], names)
    return names["args"]


def openrlhfs_refusal(settings: Settings) -> str | None:
    """The sentence of the AssertionError with which OpenRLHF's script would refuse this command line; None where it
    would train. What the script prints comes later, when the run starts.
    """
    changes: dict[str, Any] = {"use_ms": False}  # else the script would import ModelScope and patch the hub's client
    if settings.rewards_are_embedded:
        changes["reward.remote_url"] = "http://127.0.0.1"  # set when the service starts
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            settled(settings.changed(changes))
        except AssertionError as error:
            return f"OpenRLHF refuses this command line: {str(error).rstrip('.')}."
    return None


class _Parser(argparse.ArgumentParser):
    """A parser that raises a FlagError where argparse would print its usage and exit, and takes no abbreviations."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "allow_abbrev": False})

    def error(self, message: str) -> NoReturn:
        raise FlagError(message if message[-1] in ".?" else f"{message}.")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """argparse's own, with the nearest of the values that a flag takes."""
        if action.choices is None or value in action.choices:
            return
        if action.dest == "algo.advantage.estimator" and in_a_file(value):
            return
        known = [str(choice) for choice in action.choices]
        here = ELSEWHERE.get(action.dest, {}).get(str(value))
        hint = f": here that is {here}." if here else did_you_mean(str(value), known, f"it takes {', '.join(known)}")
        raise argparse.ArgumentError(action, f"there is no {value!r}{hint}")


@dataclass(frozen=True)
class _Script:
    """OpenRLHF's script in parts."""

    path: str
    imports: list[ast.stmt]
    """Imports of the standard library."""
    parser: list[ast.stmt]
    """Statements that build the parser."""
    checks: list[ast.stmt]
    """Statements between parsing and training, which check the flags."""

    def run(self, statements: list[ast.stmt], names: dict[str, Any]) -> None:
        exec(compile(ast.Module(statements, []), self.path, "exec"), names)


def _script() -> _Script:
    path = source_of(CLI)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    blocks = [
        statement.body
        for statement in tree.body
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "__name__ == '__main__'"
    ]
    main = blocks[0] if blocks else []
    written = [ast.unparse(statement) for statement in main]
    try:
        parsed, trained = written.index("args = parser.parse_args()"), written.index("train(args)")
    except ValueError as error:
        raise OpenRLHFMismatch(
            f"The main block of {path} does not parse and train as OpenRLHF 0.11's does ({error}): install OpenRLHF's "
            "released version."
        ) from None
    imports = [statement for statement in tree.body if _of_the_standard_library(statement)]
    return _Script(str(path), imports, main[:parsed], main[parsed + 1 : trained])


def openrlhfs_parser() -> argparse.ArgumentParser:
    script = _script()
    names: dict[str, Any] = {}
    script.run(script.imports, names)
    names["argparse"] = SimpleNamespace(**{**vars(argparse), "ArgumentParser": _Parser})
    script.run(script.parser, names)
    return names["parser"]


def _of_the_standard_library(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Import):
        return all(alias.name.split(".")[0] in sys.stdlib_module_names for alias in statement.names)
    return isinstance(statement, ast.ImportFrom) and (statement.module or "").split(".")[0] in sys.stdlib_module_names


def _shown(action: argparse.Action) -> str:
    """A flag's default, as ``--help`` shows it; argparse needs % doubled."""
    value = action.default
    if action.nargs == 0:
        text = "on" if value == action.const else "off"
    elif value is None or value == "":
        text = "none"
    elif isinstance(value, list | tuple):
        text = " ".join(map(str, value))
    else:
        text = str(value)
    return text.replace("%", "%%")
