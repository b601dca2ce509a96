"""Curves over training steps, several series of runs in one picture, with a band where a series has several seeds."""

import io
import re
import statistics
from collections.abc import Sequence
from typing import Any

from openrlhf_gtpo.errors import SettingsError
from openrlhf_gtpo.report.run import Run, Series

__all__ = ["CURVES", "Curve", "curves_of", "draw", "png", "smoothed", "svg"]

Curve = tuple[str, str, str]
"""Key in metrics.jsonl or evaluations.jsonl, what it is, unit."""

CURVES: tuple[Curve, ...] = (
    ("rollout/pass_rate", "reward", "share of correct responses"),
    ("entropy/token_mean", "entropy", "nats a token"),
    ("entropy/correct_mean", "entropy of correct responses", "nats a token"),
    ("entropy/wrong_mean", "entropy of wrong responses", "nats a token"),
    ("rollout/response_length_mean", "response length", "tokens"),
    ("rollout/truncated_rate", "truncated responses", "share"),
    ("groups/uninformative_share", "groups all correct or all wrong", "share"),
    ("actor_grad_norm", "gradient norm", ""),
    ("ppo_clip_ratio", "clipped ratios", "share"),
    ("mismatch/logprob_gap", "rollout against policy", "|log-probability gap|"),
    ("timing/step_total", "time of a step", "seconds"),
    ("timing/generation", "of it generation and rewards", "seconds"),
    ("reward/wait_after_generation", "of that rewards after the last token", "seconds"),
    ("shaping/seconds", "of it shaping", "seconds"),
    ("timing/ppo_train", "of it training", "seconds"),
    ("timing/broadcast", "of it weights to vLLM", "seconds"),
)
"""What no run has is left out."""

SMOOTHED_FROM = 40
"""Points from which on a curve is drawn as a running mean: single rollout batches are noisy."""

# Okabe and Ito's palette, told apart by colour-blind eyes too; a line style of its own for each run besides.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_STYLES = ("-", "--", "-.", ":")
_INK = "#808080"  # readable on white and on black


def curves_of(runs: Sequence[Run]) -> list[Curve]:
    """All curves that the runs have values for: those of training, and Pass@k of each data source of an evaluation."""
    keys = {key for run in runs for row in (*run.metrics, *run.evaluations) for key in row if row[key] is not None}
    passes = [re.fullmatch(r"eval_(.+)_pass(\d+)", key) for key in sorted(keys)]
    found = [match for match in passes if match]
    evaluated: list[Curve] = [
        (match[0], f"Pass@{match[2]} on {match[1]}", "share of prompts")
        for match in sorted(found, key=lambda match: (match[1], int(match[2])))
    ]
    return [curve for curve in CURVES if curve[0] in keys] + evaluated


def smoothed(points: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """A running mean over a tenth of the points where there are many, centred, shorter at both ends."""
    if len(points) < SMOOTHED_FROM:
        return list(points)
    half = len(points) // 20
    found = []
    for i, (step, _) in enumerate(points):
        reach = min(half, i, len(points) - 1 - i)
        found.append((step, statistics.fmean(value for _, value in points[i - reach : i + reach + 1])))
    return found


def draw(axes: Any, all_series: Sequence[Series], curve: Curve, ink: str) -> None:
    """One curve of every series on matplotlib axes: the mean over its runs, and the band from lowest to highest."""
    key, title, unit = curve
    for number, series in enumerate(all_series):
        by_step: dict[int, list[float]] = {}
        for run in series.runs:
            for step, value in smoothed(run.points(key)):
                by_step.setdefault(step, []).append(value)
        if not by_step:
            continue
        steps = sorted(by_step)
        colour = _COLOURS[number % len(_COLOURS)]
        axes.plot(
            steps,
            [statistics.fmean(by_step[step]) for step in steps],
            color=colour,
            linestyle=_STYLES[number % len(_STYLES)],
            linewidth=1.7,
            label=series.name,
        )
        if len(series.runs) > 1:
            low, high = ([pick(by_step[step]) for step in steps] for pick in (min, max))
            axes.fill_between(steps, low, high, color=colour, alpha=0.13, linewidth=0)
    axes.set_title(title, color=ink)
    axes.set_xlabel("step", color=ink)
    axes.set_ylabel(unit, color=ink)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.tick_params(colors=ink)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def svg(all_series: Sequence[Series], curve: Curve) -> str | None:
    """One picture, transparent; None where no run has the key.

    Raises:
        SettingsError: matplotlib is not installed.
    """
    if not any(run.points(curve[0]) for series in all_series for run in series.runs):
        return None
    plt, rc_context = _matplotlib()
    with rc_context({"svg.hashsalt": curve[0], "font.size": 9, "text.color": _INK, "axes.edgecolor": _INK}):
        figure, axes = plt.subplots(figsize=(4.4, 2.6), layout="constrained")
        draw(axes, all_series, curve, _INK)
        if len(all_series) > 1:
            axes.legend(frameon=False, labelcolor=_INK, fontsize=8)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
        plt.close(figure)
    picture = buffer.getvalue()
    return picture[picture.index("<svg") :]


def png(all_series: Sequence[Series], curves: Sequence[Curve]) -> bytes:
    """Several curves side by side on white, for a document.

    Raises:
        SettingsError: matplotlib is not installed.
    """
    plt, rc_context = _matplotlib()
    columns = min(3, len(curves))
    rows = -(-len(curves) // columns)
    with rc_context({"font.size": 9}):
        figure, panels = plt.subplots(
            rows, columns, figsize=(4.4 * columns, 3.1 * rows), layout="constrained", squeeze=False
        )
        for panel, curve in zip(panels.flat, curves, strict=False):
            draw(panel, all_series, curve, "#1b1b1b")
        for panel in list(panels.flat)[len(curves) :]:
            panel.axis("off")
        handles, labels = panels.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=120, metadata={"Software": None})
        plt.close(figure)
    return buffer.getvalue()


def _matplotlib() -> tuple[Any, Any]:
    try:
        import matplotlib
    except ImportError:
        raise SettingsError("The report is drawn by matplotlib: pip install 'openrlhf-gtpo[quickstart]'.") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt, matplotlib.rc_context
