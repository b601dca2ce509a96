"""The command ``openrlhf-gtpo``."""

import sys
from collections.abc import Sequence

USAGE = """usage: openrlhf-gtpo train [flags of OpenRLHF's train_ppo_ray and ours, --preset, --shaping.* ...]
       openrlhf-gtpo eval --model DIR --data FILE.jsonl... --out DIR [--n 32] [--k 1,2,4,...]
       openrlhf-gtpo data prepare NAME --from PATH_OR_HUB_ID --out DIR
       openrlhf-gtpo report RUN... [--out FILE.html]
       openrlhf-gtpo doctor [--model DIR] [--data FILE.jsonl] [--reward_url URL] [--out DIR] [--engine] [--json]
       openrlhf-gtpo selftest [--device cpu|gpu] [--out DIR] [--only NAME,NAME]

  train    train with GTPO, GRPO-S or any estimator of OpenRLHF; `openrlhf-gtpo train --help` lists the flags
  eval     Mean@n and Pass@k of a policy with confidence intervals; `openrlhf-gtpo eval --help` lists the flags
  data     prompts and labels from a data set, every reference checked; `openrlhf-gtpo data prepare --help`
  report   curves and the token view of one or several runs, as one HTML file
  doctor   what to fix before training; `openrlhf-gtpo doctor --help` lists the flags
  selftest what only running on this machine can show: kernel, hook, three steps with a GPU's flags, LoRA, a resume"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a sub-command; its exit status, or 2 with the usage for one that does not exist."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["train"]:
        from openrlhf_gtpo import train

        return train.main(arguments[1:])
    if arguments[:1] == ["eval"]:
        from openrlhf_gtpo.evaluation import command

        return command.main(arguments[1:])
    if arguments[:2] == ["data", "prepare"]:
        from openrlhf_gtpo.data import prepare

        return prepare.main(arguments[2:])
    if arguments[:1] == ["report"]:
        from openrlhf_gtpo.report import command as report

        return report.main(arguments[1:])
    if arguments[:1] == ["doctor"]:
        from openrlhf_gtpo.doctor import command as doctor

        return doctor.main(arguments[1:])
    if arguments[:1] == ["selftest"]:
        from openrlhf_gtpo.selftest import command as selftest

        return selftest.main(arguments[1:])
    asked = arguments[:1] in (["-h"], ["--help"])
    print(USAGE, file=sys.stdout if asked else sys.stderr)
    return 0 if asked else 2
