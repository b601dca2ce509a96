"""``openrlhf-gtpo data``: commands for data sets."""

from collections.abc import Sequence

from openrlhf_gtpo.parsing import dispatch

COMMANDS = {
    "prepare": ("openrlhf_gtpo.data.prepare", "write a data set as prompts and labels, every reference checked"),
}


def main(argv: Sequence[str]) -> int:
    """Run a command; its exit status."""
    return dispatch("openrlhf-gtpo data", "Data sets as OpenRLHF trains on them.", COMMANDS, argv)
