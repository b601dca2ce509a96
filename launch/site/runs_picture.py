"""Draws the 40 steps of GTPO and of GRPO on SmolLM2, six runs of each, from the records of those runs.

python launch/site/runs_picture.py docs/smollm2_runs.svg

A line is the mean over runs of the share of correct responses, over five steps around each; its band is the 95 %
interval of Student's t over the runs. Points are pass@1 on the 100 held-out problems, with the same interval.
"""

import io
import json
import re
import sys
from pathlib import Path

import matplotlib
import numpy as np
from scipy import stats

from openrlhf_gtpo.report.curves import COLOURS, INK

matplotlib.use("agg")
import matplotlib.pyplot as plt

RECORDS = Path(__file__).resolve().parents[2] / "docs" / "studies" / "real_model.jsonl"
ARMS = {"gtpo": "GTPO", "grpo": "GRPO"}
AROUND = 2
"""Steps before and after one that its mean has."""
STYLE = "<style>:root{--ink:#55585e}@media(prefers-color-scheme:dark){:root{--ink:#c9ccd1}}</style>"
"""A page shows the picture as an image, so it follows the reader's colours by itself."""


def interval(values: np.ndarray) -> np.ndarray:
    """Half of the mean's 95 % interval: of (runs, ...) the rest."""
    return np.asarray(stats.t.ppf(0.975, len(values) - 1) * values.std(0, ddof=1) / np.sqrt(len(values)))


def main() -> None:
    ink = dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK)
    records = [json.loads(line) for line in RECORDS.read_text(encoding="utf-8").splitlines()]
    with plt.rc_context({**ink, "font.size": 11, "svg.hashsalt": "openrlhf-gtpo", "svg.fonttype": "none"}):
        figure, panel = plt.subplots(figsize=(4.8, 3.1), layout="constrained")
        for number, (arm, name) in enumerate(ARMS.items()):
            runs = [run for run in records if run["arm"] == arm]
            rewards = np.array([run["training"]["reward"] for run in runs])  # (runs, steps)
            steps = np.arange(1, rewards.shape[1] + 1)
            means = np.stack([rewards[:, max(0, i - AROUND) : i + AROUND + 1].mean(1) for i in range(len(steps))], 1)
            held_out = np.array([[run["before"]["start"]["pass@1"], run["final"]["pass@1"]] for run in runs])
            mean, half, colour = means.mean(0), interval(means), COLOURS[number]
            panel.fill_between(steps, mean - half, mean + half, color=colour, alpha=0.18, linewidth=0)
            panel.plot(steps, mean, color=colour, linewidth=2, label=name)
            places = [0, steps[-1] + 1 + number]  # side by side
            panel.errorbar(
                places,
                held_out.mean(0),
                interval(held_out),
                fmt="o",
                color=colour,
                capsize=3,
                label=f"{name}, held-out",
            )
        panel.set_xlabel("step")
        panel.set_ylabel("share of correct responses")
        panel.set_ylim(0, 1)
        panel.spines[["top", "right"]].set_visible(False)
        panel.legend(frameon=False, fontsize=11, loc="upper left", ncols=2)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None}, transparent=True)
    text = file.getvalue().replace(INK, "var(--ink)")
    Path(sys.argv[1]).write_text(re.sub(r"(<svg [^>]*>)", rf"\1\n{STYLE}", text, count=1))


if __name__ == "__main__":
    main()
