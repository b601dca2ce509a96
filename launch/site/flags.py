"""Writes the page of our flags out of the parser: python launch/site/flags.py docs/flags.md"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from openrlhf_gtpo import flags

RUN = [line for line in flags.preset_flags("grpo") if all(line in flags.preset_flags(n) for n in flags.presets())]
"""What all presets share."""


def page() -> str:
    """The page in Markdown."""
    lines = [
        "# Flags",
        "",
        "Of `openrlhf-gtpo train` and `python -m openrlhf_gtpo.train`, which are the same. `--help` prints these, and",
        "`--help-all` OpenRLHF's own too, which are all taken. This page is written by `python launch/site/flags.py",
        "docs/flags.md`.",
    ]
    for group in flags.parser()._action_groups:
        if group.title in flags.GROUPS:
            rows = [(_name(action), _meaning(action)) for action in group._group_actions]
            lines += ["", f"## {group.description}", "", *table(["flag", "meaning"], rows)]
    lines += [
        "",
        "## Presets",
        "",
        "`--preset NAME` stands for these flags. Flags beside it win, and `--no-FLAG` takes one back.",
        "",
        *table(["name", "flags"], [(f"`{name}`", _shown(name)) for name in flags.presets()]),
        "",
        "Each of them also has the run of GTPO's paper: " + ", ".join(f"`{' '.join(line)}`" for line in RUN) + ".",
    ]
    return "\n".join(lines) + "\n"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]


def _name(action: argparse.Action) -> str:
    value = action.metavar if action.nargs != 0 else None
    if action.choices is not None:
        value = "{" + ",".join(map(str, action.choices)) + "}" + (" ..." if action.nargs == "+" else "")
    shown = " ".join(value) if isinstance(value, tuple) else value
    return ", ".join(f"`{option} {shown}`" if shown else f"`{option}`" for option in action.option_strings)


def _meaning(action: argparse.Action) -> str:
    text = " ".join((action.help or "").split())
    if action.default not in (None, False, argparse.SUPPRESS) and "default" not in text:
        given = " ".join(map(str, action.default)) if isinstance(action.default, list) else action.default
        text += f" (default: {given})"
    return re.sub(r"\|", r"\\|", text)


def _shown(preset: str) -> str:
    return "<br>".join(f"`{' '.join(line)}`" for line in flags.preset_flags(preset) if line not in RUN)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
