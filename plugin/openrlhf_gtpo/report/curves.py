"""Curves over training steps as SVG, several runs in one picture."""

import io
from collections.abc import Sequence

from openrlhf_gtpo.errors import SettingsError
from openrlhf_gtpo.report.run import Run

__all__ = ["CURVES", "svg"]

CURVES = (
    ("rollout/pass_rate", "reward", "share of correct responses"),
    ("entropy/mean", "entropy", "nats a token"),
    ("entropy/correct_mean", "entropy of correct responses", "nats a token"),
    ("entropy/wrong_mean", "entropy of wrong responses", "nats a token"),
    ("rollout/response_length_mean", "response length", "tokens"),
    ("rollout/truncated_rate", "truncated responses", "share"),
    ("groups/uninformative_share", "groups all correct or all wrong", "share"),
    ("actor_grad_norm", "gradient norm", ""),
    ("ppo_clip_ratio", "clipped ratios", "share"),
    ("mismatch/logprob_gap", "rollout against policy", "|log-probability gap|"),
)
"""Key in metrics.jsonl, what it is, unit; what no run has is left out."""

# Okabe and Ito's palette, told apart by colour-blind eyes too; a line style of its own for each run besides.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_STYLES = ("-", "--", "-.", ":")
_INK = "#808080"  # readable on white and on black


def svg(runs: Sequence[Run], key: str, title: str, unit: str) -> str | None:
    """One picture, transparent; None where no run has the key.

    Raises:
        SettingsError: matplotlib is not installed.
    """
    series = [(run.name, [(row["step"], row[key]) for row in run.metrics if row.get(key) is not None]) for run in runs]
    if not any(points for _, points in series):
        return None
    try:
        import matplotlib
    except ImportError:
        raise SettingsError("The report is drawn by matplotlib: pip install 'openrlhf-gtpo[quickstart]'.") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with matplotlib.rc_context({"svg.hashsalt": key, "font.size": 9, "text.color": _INK, "axes.edgecolor": _INK}):
        figure, axes = plt.subplots(figsize=(4.4, 2.6), layout="constrained")
        for number, (name, points) in enumerate(series):
            if points:
                style = {"color": _COLOURS[number % len(_COLOURS)], "linestyle": _STYLES[number % len(_STYLES)]}
                axes.plot(*zip(*points, strict=True), linewidth=1.7, label=name, **style)
        axes.set_title(title, color=_INK)
        axes.set_xlabel("step", color=_INK)
        axes.set_ylabel(unit, color=_INK)
        axes.tick_params(colors=_INK)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        if len(runs) > 1:
            axes.legend(frameon=False, labelcolor=_INK)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
        plt.close(figure)
    picture = buffer.getvalue()
    return picture[picture.index("<svg") :]
