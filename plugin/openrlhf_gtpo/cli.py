"""The command ``openrlhf-gtpo``."""

import sys
from collections.abc import Sequence

from openrlhf_gtpo.parsing import Commands, dispatch

COMMANDS: Commands = {
    "start": ("openrlhf_gtpo.start", "the commands for this machine, from the data to the evaluation"),
    "train": ("openrlhf_gtpo.train", "train with GTPO, GRPO-S or any estimator of OpenRLHF"),
    "eval": ("openrlhf_gtpo.evaluation.command", "Mean@n and Pass@k of a policy with confidence intervals"),
    "data": (
        {"prepare": ("openrlhf_gtpo.data.prepare", "write a data set as prompts and labels, every reference checked")},
        "prompts and labels from a data set, every reference checked",
    ),
    "report": ("openrlhf_gtpo.report.command", "curves and the token view of one or several runs, as one HTML file"),
    "doctor": ("openrlhf_gtpo.doctor.command", "what to fix before training"),
    "selftest": (
        "openrlhf_gtpo.selftest.command",
        "run the parts on this machine: kernel, hook, three training steps with a GPU's flags, LoRA, a resume",
    ),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; its exit status."""
    return dispatch("openrlhf-gtpo", "GTPO and GRPO-S for OpenRLHF.", COMMANDS, sys.argv[1:] if argv is None else argv)
