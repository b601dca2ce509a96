"""Draws curves over training steps: several series in one picture, with a band for a series of several seeds."""

import io
import itertools
import re
import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from openrlhf_gtpo.errors import SettingsError
from openrlhf_gtpo.report.run import Run, Series

Curve = tuple[str, str, str]
"""Key in metrics.jsonl or evaluations.jsonl, what it is, unit."""

CURVES: tuple[Curve, ...] = (
    ("rollout/pass_rate", "reward", "share of correct responses"),
    ("entropy/token_mean", "entropy", "nats a token"),
    ("entropy/correct_token_mean", "entropy of correct responses", "nats a token"),
    ("entropy/wrong_token_mean", "entropy of wrong responses", "nats a token"),
    ("advantage/correct_std", "spread of advantages, correct tokens", "standard deviation"),
    ("advantage/wrong_std", "spread of advantages, wrong tokens", "standard deviation"),
    ("rollout/response_length_mean", "response length", "tokens"),
    ("rollout/truncated_rate", "truncated responses", "share"),
    ("groups/uninformative_share", "groups all correct or all wrong", "share"),
    ("actor_grad_norm", "gradient norm", ""),
    ("ppo_clip_ratio", "clipped ratios", "share"),
    ("mismatch/logprob_gap", "rollout against policy", "|log-probability gap|"),
    ("timing/step_total", "time of a step", "seconds"),
    ("timing/generation", "generation + rewards (part of a step)", "seconds"),
    ("reward/wait_after_generation", "rewards after the last token (part of generation)", "seconds"),
    ("timing/make_experience", "log-probabilities + advantages (part of a step)", "seconds"),
    ("shaping/seconds", "advantages alone (part of the last)", "seconds"),
    ("timing/ppo_train", "training (part of a step)", "seconds"),
    ("timing/broadcast", "weights to vLLM (part of a step)", "seconds"),
)
"""Curves that no run has are left out."""

DECIDING = frozenset(
    [
        "rollout/pass_rate", "entropy/token_mean", "rollout/response_length_mean", "mismatch/logprob_gap",
        "groups/uninformative_share", "actor_grad_norm",
    ]
)  # fmt: skip
"""The curves that say whether a run is healthy; the report folds the others, but for those of evaluations."""

SMOOTHED_FROM = 40
"""A curve of at least this many points is drawn as a running mean, since single rollout batches are noisy."""

# Okabe and Ito's palette, which colour-blind people can distinguish; each run also has its own line style.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_STYLES = ("-", "--", "-.", ":")
_INK = "#808080"  # a page's own colour takes its place


def decides(curve: Curve) -> bool:
    """Whether a curve is one of the few that are looked at first."""
    return curve[0] in DECIDING or curve[0].startswith("eval_")


def curves_of(runs: Sequence[Run]) -> list[Curve]:
    """All curves that the runs have values for: those of training, and Pass@k for each data source of evaluations."""
    keys = {key for run in runs for row in (*run.metrics, *run.evaluations) for key in row if row[key] is not None}
    passes = [re.fullmatch(r"eval_(.+)_pass(\d+)", key) for key in sorted(keys)]
    matches = [match for match in passes if match]
    evaluated: list[Curve] = [
        (match[0], f"Pass@{match[2]} on {match[1]}", "share of prompts")
        for match in sorted(matches, key=lambda match: (match[1], int(match[2])))
    ]
    return [curve for curve in CURVES if curve[0] in keys] + evaluated


def width(lengths: Collection[int]) -> int:
    """The number of points in the running mean: a tenth of the longest curve, at most half of the shortest, and odd.
    It is 1, so no mean, if all curves are short.

    All curves in one picture have the same width, so that they are equally noisy.

    Args:
        lengths: number of points of each curve.
    """
    longest, shortest = max(lengths), min(lengths)
    if longest < SMOOTHED_FROM:
        return 1
    return max(1, 2 * min(longest // 20, (shortest // 2 - 1) // 2) + 1)


def smoothed(points: Sequence[tuple[int, float]], width: int) -> list[tuple[int, float]]:
    """The running mean over ``width`` points, an odd number, at the step in the middle of each.

    Only whole windows are used: at the ends of the curve, a mean over fewer points would be noisy.
    """
    sums = [0.0, *itertools.accumulate(value for _, value in points)]
    half = width // 2
    return [
        (points[i][0], (sums[i + half + 1] - sums[i - half]) / width if half else points[i][1])
        for i in range(half, len(points) - half)
    ]


def any_smoothed(all_series: Sequence[Series], curves: Sequence[Curve]) -> bool:
    """Whether one of the curves is drawn as a running mean."""
    return any(_span(_points(all_series, key)) > 1 for key, _, _ in curves)


def _points(all_series: Sequence[Series], key: str) -> dict[str, list[tuple[int, float]]]:
    """Those of each run that has some, by its name."""
    points = {run.name: run.points(key) for series in all_series for run in series.runs}
    return {name: pairs for name, pairs in points.items() if pairs}


def _span(points: Mapping[str, Sequence[tuple[int, float]]]) -> int:
    return width([len(pairs) for pairs in points.values()]) if points else 1


def draw(axes: Any, all_series: Sequence[Series], curve: Curve, ink: str) -> None:
    """One curve of every series on matplotlib axes.

    A series of several runs is drawn as their mean with a band from lowest to highest, over the steps that all of them
    have, and longer runs continue as thin lines. The single values of one run are a thin line behind the running mean.
    """
    key, _, unit = curve
    points = _points(all_series, key)
    span = _span(points)
    for number, series in enumerate(all_series):
        runs = [points[run.name] for run in series.runs if run.name in points]
        if not runs:
            continue
        style = {"color": _COLOURS[number % len(_COLOURS)], "linestyle": _STYLES[number % len(_STYLES)]}
        lines = [dict(smoothed(pairs, span)) for pairs in runs]
        steps = sorted(set.intersection(*(set(line) for line in lines)))
        by_step = [[line[step] for line in lines] for step in steps]
        marker = {"marker": "o", "markersize": 2.5} if len(steps) < SMOOTHED_FROM and span == 1 else {}
        axes.plot(steps, list(map(statistics.fmean, by_step)), label=series.name, linewidth=1.7, **style, **marker)
        thin = {"linewidth": 0.8, "alpha": 0.45, "color": style["color"]}
        if len(lines) > 1:
            axes.fill_between(
                steps, list(map(min, by_step)), list(map(max, by_step)), color=style["color"], alpha=0.13, linewidth=0
            )
            last = steps[-1] if steps else 0
            for line in lines:
                axes.plot(*_columns([point for point in line.items() if point[0] >= last]), **thin)
        elif span > 1:
            axes.plot(*_columns(runs[0]), **thin)
    if all(value == 0 for pairs in points.values() for _, value in pairs):
        axes.set_ylim(-0.05, 1)  # matplotlib would show a tiny range around 0
    axes.set_xlabel("step" if span == 1 else f"step; line: mean over {span} steps", color=ink)
    axes.set_ylabel(unit, color=ink)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.tick_params(colors=ink)
    axes.grid(color=ink, alpha=0.15)
    axes.spines[["top", "right"]].set_visible(False)


def _columns(points: Sequence[tuple[int, float]]) -> tuple[list[int], list[float]]:
    return [step for step, _ in points], [value for _, value in points]


def svg(all_series: Sequence[Series], curve: Curve) -> str | None:
    """One picture, transparent, in the colour of the text around it; None where no run has the key.

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
    return picture[picture.index("<svg") :].replace(_INK, "currentColor")


def png(all_series: Sequence[Series], curves: Sequence[Curve], title: str = "") -> bytes:
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
            panel.set_title(curve[1])
        for panel in list(panels.flat)[len(curves) :]:
            panel.axis("off")
        if title:
            figure.suptitle(title)
        if len(all_series) > 1:
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
        raise SettingsError("The report needs matplotlib: pip install 'openrlhf-gtpo[quickstart]'.") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt, matplotlib.rc_context
