"""Writes the page of all flags out of the parser: python -m openrlhf_gtpo.driver.flags_page docs/flags.md"""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from openrlhf_gtpo.algorithms.table import ESTIMATORS, ours
from openrlhf_gtpo.driver import command_line, presets
from openrlhf_gtpo.tables import markdown as table


def markdown() -> str:
    """The page: our flags, the estimators and presets, and OpenRLHF's own flags."""
    parser = command_line.parser()
    known = {action.dest for action in command_line.openrlhfs_parser()._actions}
    own = [action for action in parser._actions if action.dest not in known]
    theirs = [action for action in parser._actions if action.dest in known and action.dest != "help"]
    lines = [
        "# Flags",
        "",
        "Of `python -m openrlhf_gtpo.train`, and of `openrlhf-gtpo train`, which is the same. This page is written by",
        "`python -m openrlhf_gtpo.driver.flags_page docs/flags.md` out of the parser; `--help` prints the same.",
        "",
        "## Ours",
        "",
        table(["flag", "meaning"], _meanings(own)),
        "",
        "## Estimators",
        "",
        "Values of `--algo.advantage.estimator` that OpenRLHF does not have:",
        "",
        table(["name", "what it is"], [(f"`{name}`", ESTIMATORS[name].sentence) for name in ours()]),
        "",
        "## Presets",
        "",
        "`--preset NAME` stands for these flags. Flags beside it win, and `--no-FLAG` takes a switch back.",
        "",
        table(["name", "flags"], [(f"`{name}`", _shown(_own(name))) for name in presets.names()]),
        "",
        f"and each of them for the run of GTPO's paper besides: {_shown(presets.run(), ', ')}.",
        "",
        "## OpenRLHF's",
        "",
        "As in the version that this project is tested with.",
        "",
        table(["flag", "meaning"], _meanings(theirs)),
    ]
    return "\n".join(lines) + "\n"


def _meanings(actions: Sequence[argparse.Action]) -> Iterator[tuple[str, str]]:
    """Each flag and what it means, as Markdown."""
    for action in actions:
        if action.help is argparse.SUPPRESS:
            continue
        value = "" if action.nargs == 0 else f" {_value(action)}"
        flags = ", ".join(f"`{option}{value}`" for option in action.option_strings)
        text = " ".join((action.help or "").replace("%%", "%").split())
        text = re.sub(r"\d{4}T\d\d:\d\d", "MMDDThh:mm", text)  # a default that is the time of day
        yield flags, text


def _own(preset: str) -> list[list[str]]:
    """The flags of a preset that not all presets have."""
    return [flag for flag in presets.flags(preset) if flag not in presets.run()]


def _shown(flags: Sequence[Sequence[str]], between: str = "<br>") -> str:
    return between.join(f"`{' '.join(flag)}`" for flag in flags)


def _value(action: argparse.Action) -> str:
    """What stands behind a flag: its choices, its metavar, or its type."""
    if action.choices is not None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    if isinstance(action.metavar, tuple):
        return " ".join(action.metavar)
    name = action.metavar or (action.type.__name__ if isinstance(action.type, type) else "text")
    return f"{name} ..." if action.nargs in ("*", "+") else name


def main(argv: Sequence[str] | None = None) -> None:
    """Write the page to the file that the command line names."""
    (path,) = sys.argv[1:] if argv is None else argv
    Path(path).write_text(markdown(), encoding="utf-8")


if __name__ == "__main__":
    main()
