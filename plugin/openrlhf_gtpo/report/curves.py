"""The curves of runs, as one picture."""

import io
from collections.abc import Mapping, Sequence

from openrlhf_gtpo.report.run import Run

CURVES = {
    "rollout/pass_rate": "share of correct responses",
    "entropy/token_mean": "entropy, nats a token",
    "rollout/response_length_mean": "response length, tokens",
    "groups/uninformative_share": "groups all correct or all wrong",
    "groups/shaped_share": "mixed groups in which entropy distributes",
    "mismatch/logprob_gap": "rollout against policy, |log-probability gap|",
    "actor_grad_norm": "gradient norm",
    "ppo_clip_ratio": "clipped ratios",
    "timing/step_total": "seconds of a step",
}
"""What says whether a run is healthy; metrics.jsonl, tensorboard and wandb have all metrics."""
MAIN = 4
"""How many of them the page shows; the others are folded."""
COLUMNS = 2
INK = "#66696f"
"""Of text and frames, on white; a page replaces it."""
COLOURS = ("#3a76d8", "#e07b39", "#3a9a5b", "#a05fc4", "#8a8f98", "#c9a227", "#d65a7a", "#2aa5a5")


def picture(runs: Sequence[Run], form: str = "svg", curves: Mapping[str, str] = CURVES, title: str = "") -> bytes:
    """All curves as one picture without a background, which suits a light and a dark page.

    Args:
        runs: one line each.
        form: ``svg`` or ``png``.
        curves: metric -> title; those that no run has are left out.
        title: above all of them.
    """
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    wanted = [key for key in curves if any(run.points(key) for run in runs)]
    columns = COLUMNS if len(wanted) > COLUMNS + 1 else max(1, len(wanted))
    rows = -(-len(wanted) // columns) or 1
    ink = dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK)
    with plt.rc_context({**ink, "font.size": 10, "svg.hashsalt": "openrlhf-gtpo", "svg.fonttype": "none"}):
        size = (4.5 * columns, 2.5 * rows)
        figure, panels = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
        for panel, key in zip(panels.flat, wanted, strict=False):
            for place, run in enumerate(runs):
                if points := run.points(key):
                    colour = COLOURS[place % len(COLOURS)]
                    panel.plot(*zip(*points, strict=True), label=run.name, color=colour, linewidth=1.3)
            panel.set_title(curves[key], fontsize=11)
            panel.set_xlabel("step")
            panel.grid(alpha=0.15)
        for panel in panels.flat[len(wanted) :]:
            panel.set_axis_off()
        if len(runs) > 1 and wanted:
            panels[0, 0].legend(frameon=False)
        if title:
            figure.suptitle(title, fontsize=11)
        file = io.BytesIO()
        background = {"transparent": True} if form == "svg" else {"facecolor": "white", "dpi": 150}
        figure.savefig(file, format=form, metadata={"Date": None} if form == "svg" else {}, **background)
        plt.close(figure)
    return file.getvalue()
