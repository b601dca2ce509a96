"""The command ``openrlhf-gtpo``."""

import argparse
import importlib
import sys
from collections.abc import Sequence
from importlib.metadata import version

from math_reward.nearest import did_you_mean
from openrlhf_gtpo import surroundings
from openrlhf_gtpo.errors import SettingsError, UserError

COMMANDS = {
    "train": ("openrlhf_gtpo.train", "train with GTPO, GRPO-S or any estimator of OpenRLHF"),
    "doctor": ("openrlhf_gtpo.doctor", "what to fix before training; --run trains here for some minutes"),
    "data": ("openrlhf_gtpo.data.prepare", "prompts and labels from a data set, every reference checked"),
    "eval": ("openrlhf_gtpo.evaluation", "Mean@n and Pass@k of a policy with confidence intervals"),
    "compare": (
        "openrlhf_gtpo.compare.command",
        "how far a step along each estimator's gradient raises the reward, on one batch",
    ),
    "credit": ("openrlhf_gtpo.compare.credit", "what each token was worth, by fresh continuations of every prefix"),
    "report": ("openrlhf_gtpo.report.command", "curves and the token view of runs, as one HTML file"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Returns:
        The command's exit status; 2, with the sentence, after a SettingsError, and 1 after a UserError or where a
        package is not installed.

    Raises:
        SystemExit: 0 after ``--help`` and ``--version``; 2, with a sentence, for a command that does not exist.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(prog="openrlhf-gtpo", description="GTPO and GRPO-S for OpenRLHF.")
    parser.add_argument("--version", action="version", version=f"openrlhf-gtpo {version('openrlhf-gtpo')}")
    names = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command, (_, what) in COMMANDS.items():
        names.add_parser(command, help=what, add_help=False)
    if words and words[0] not in (known := [*COMMANDS, "-h", "--help", "--version"]):
        kind = "flag" if words[0].startswith("-") else "command"
        parser.error(f"There is no {kind} {words[0]}{did_you_mean(words[0], known, '--help lists them')}")
    name = parser.parse_args(words[:1]).command
    try:
        with surroundings.prepared():
            return importlib.import_module(COMMANDS[name][0]).main(words[1:])
    except (SettingsError, UserError) as error:
        said, status = str(error), 2 if isinstance(error, SettingsError) else 1
    except ModuleNotFoundError as error:
        if str(error.name).startswith("openrlhf_gtpo"):
            raise
        said, status = (
            f"It needs the Python package {error.name}, which comes with the trainer: install that in a clone of the "
            "repository by `bash launch/setup_gpu.sh` (setup.sh without a GPU).",
            1,
        )
    print("\n".join(f"openrlhf-gtpo {name}: error: {line}" for line in said.splitlines()), file=sys.stderr)
    return status
