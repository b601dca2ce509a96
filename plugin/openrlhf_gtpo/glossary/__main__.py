"""Writes the page of all metrics: python -m openrlhf_gtpo.glossary docs/metrics.md"""

import sys
from collections.abc import Sequence
from pathlib import Path

from openrlhf_gtpo.glossary.entries import GLOSSARY, Entry
from openrlhf_gtpo.tables import markdown as table

VARIES = "*Varies.*"


def markdown() -> str:
    """The page docs/metrics.md."""
    lines = [
        "# Metrics",
        "",
        "What a run logs: to `metrics.jsonl` one line a step, to `evaluations.jsonl` one for each evaluation during "
        "training (`eval_*`), and to tensorboard and wandb under `train/` and `eval/`. `openrlhf-gtpo report` "
        "shows the ones that a run has, with these descriptions.",
        "",
        "*A step* is one rollout batch and its updates. Means are over the policy's own responses; with a guide, "
        "OpenRLHF's means over updates hold the guide's too. A class without tokens has no values in that step, and "
        "NaN and infinities are `null`. `{source}` is the name of an evaluation's data source, `{k}` a number of "
        "samples. What a reward function or service gives as `extra_logs` is logged by its own name.",
        "",
        f"Times and counts of requests are marked {VARIES} They differ between two runs of one command, also where "
        "everything else repeats, so comparisons of runs leave them out (`openrlhf-gtpo report A B`, "
        "`bash launch/test.sh same COMMIT`).",
        "",
        "This page is written from `plugin/openrlhf_gtpo/glossary/metrics.csv` by "
        "`python -m openrlhf_gtpo.glossary docs/metrics.md`; `openrlhf/` is OpenRLHF's package.",
    ]
    for subject in dict.fromkeys(map(_subject, GLOSSARY)):
        lines += [
            "",
            f"## {subject}",
            "",
            table(
                ["name", "what it is", "unit", "over", "computed in"],
                [_row(entry) for entry in GLOSSARY if _subject(entry) == subject],
            ),
        ]
    return "\n".join(lines) + "\n"


def _row(entry: Entry) -> tuple[str, ...]:
    text = f"{entry.text} Logged {entry.when}." if entry.when else entry.text
    text = text if entry.repeats else f"{text} {VARIES}"
    return f"`{entry.name}`", text, entry.unit, entry.over, f"`{entry.file}`"


def _subject(entry: Entry) -> str:
    """The section that an entry stands in."""
    if entry.name.startswith("eval_"):
        return "Evaluation during training"
    subject, slash, _ = entry.name.partition("/")
    return f"`{subject}/`" if slash else "Other names, most of them OpenRLHF's"


def main(argv: Sequence[str] | None = None) -> None:
    """Write the page to the file that the command line names."""
    (path,) = sys.argv[1:] if argv is None else argv
    Path(path).write_text(markdown(), encoding="utf-8")


if __name__ == "__main__":
    main()
