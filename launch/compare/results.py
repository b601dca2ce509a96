"""What a study found: intervals over seeds, differences to GRPO on the same seeds, the entropy's course, the report.

Everything is computed from the files of the runs, so that a finished study can be looked at again.
"""

from __future__ import annotations

import dataclasses
import html
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openrlhf_gtpo.report.curves import curves_of, png, smoothed
from openrlhf_gtpo.report.page import page, table
from openrlhf_gtpo.report.run import Run, read, series

# 97.5 % quantiles of Student's t by degrees of freedom.
T = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}

BASELINE = "grpo"
FIGURES = ("pass@1", "pass@4", "pass@8", "pass@32", "entropy", "response_length")
"""Columns of the table, from the last measurement; pass@1 is the mean over the samples, Mean@32."""

PICTURE = ("rollout/pass_rate", "_pass1", "_pass16", "entropy/mean", "rollout/response_length_mean")
PICTURE += ("groups/uninformative_share",)
"""How the keys of the curves in curves.png end."""


@dataclass(frozen=True)
class Interval:
    """A mean over seeds and half the width of its 95 % interval (Student's t); one seed has no width."""

    mean: float
    half: float | None

    def __str__(self) -> str:
        places = 1 if abs(self.mean) >= 10 else 3
        width = "" if self.half is None else f" ± {self.half:.{places}f}"
        return f"{self.mean:.{places}f}{width}"

    @property
    def is_beyond_noise(self) -> bool:
        """Whether 0 is outside."""
        return self.half is not None and abs(self.mean) > self.half


def interval(values: Sequence[float]) -> Interval:
    mean = statistics.fmean(values)
    if len(values) == 1:
        return Interval(mean, None)
    return Interval(mean, T[len(values) - 1] * statistics.stdev(values) / math.sqrt(len(values)))


def final(folder: Path) -> dict[str, float]:
    """The means of an evaluation's only benchmark."""
    (figures,) = json.loads((folder / "eval.json").read_text(encoding="utf-8"))["benchmarks"].values()
    return {key: value["mean"] for key, value in figures.items() if isinstance(value, dict)}


@dataclass(frozen=True)
class Entropy:
    """The course of a run's smoothed entropy, nats a token."""

    first: float
    lowest: float
    lowest_step: int
    last: float

    @classmethod
    def of(cls, run: Run) -> Entropy:
        points = smoothed(run.points("entropy/mean"))
        step, lowest = min(points, key=lambda point: point[1])
        return cls(points[0][1], lowest, step, points[-1][1])

    @property
    def rebound(self) -> float:
        """How far it has come up again since its lowest point."""
        return self.last - self.lowest


def seconds_a_step(run: Run) -> float:
    """Wall time, evaluations left out; the first steps, in which everything warms up, are too."""
    return statistics.fmean(row["timing/step_total"] for row in run.metrics[5:] or run.metrics)


def responses(run: Run) -> float:
    """Responses that were generated, those that dynamic filtering threw away included."""
    last = run.metrics[-1]
    measured = sum(row.get("eval_num_samples", 0) for row in run.evaluations if row["step"] < last["step"])
    return last["reward/items_total"] - measured


def write(out: Path, names: Mapping[str, str], folders: Mapping[str, Sequence[Path]]) -> str:
    """Write summary.json, table.md, curves.png and report.html.

    Args:
        out: the study's folder; start/ in it has the measurement of the policy that all runs began with.
        names: preset -> name.
        folders: preset -> the folders of its runs, a seed each.

    Returns:
        The table for people, as Markdown.
    """
    runs = {preset: [read(folder) for folder in mine] for preset, mine in folders.items()}
    finals = {preset: [final(folder / "final") for folder in mine] for preset, mine in folders.items()}
    first = final(out / "start")
    rows = [["start", *(Interval(first[key], None) for key in FIGURES), "", ""]]
    for preset, mine in runs.items():
        cells = [interval([figures[key] for figures in finals[preset]]) for key in FIGURES]
        speed = interval([seconds_a_step(run) for run in mine])
        rows.append([names[preset], *cells, speed, f"{statistics.fmean(map(responses, mine)):,.0f}"])
    head = ["", *FIGURES, "seconds a step", "responses"]
    differences = []
    for preset in runs:
        if preset == BASELINE or BASELINE not in runs:
            continue
        gaps = [
            interval([mine[key] - base[key] for mine, base in zip(finals[preset], finals[BASELINE], strict=True)])
            for key in FIGURES
        ]
        differences.append([names[preset], *(f"**{gap}**" if gap.is_beyond_noise else str(gap) for gap in gaps)])
    entropies = []
    for preset, mine in runs.items():
        course = [Entropy.of(run) for run in mine]
        entropies.append(
            [
                names[preset],
                *(interval([getattr(one, key) for one in course]) for key in ("first", "lowest", "last", "rebound")),
                " ".join(str(one.lowest_step) for one in course),
            ]
        )
    entropy_head = ["Entropy in training", "first", "lowest", "last", "rebound (last - lowest)", "steps of the lowest"]
    text = f"{markdown(head, rows)}\n\nMean over seeds ± half a 95 % interval (Student's t over seeds).\n"
    if differences:
        text += (
            f"\nDifference to {names[BASELINE]} with the same seed; bold where the interval leaves out 0 "
            f"({len(differences) * len(FIGURES)} comparisons: one in twenty is bold by chance).\n\n"
            f"{markdown(['', *FIGURES], differences)}\n"
        )
    text += f"\n{markdown(entropy_head, entropies)}\n"
    (out / "table.md").write_text(text, encoding="utf-8")
    summary = {
        "start": first,
        "runs": {preset: [dict(figures) for figures in mine] for preset, mine in finals.items()},
        "entropy": {preset: [dataclasses.asdict(Entropy.of(run)) for run in mine] for preset, mine in runs.items()},
        "seconds_a_step": {preset: [seconds_a_step(run) for run in mine] for preset, mine in runs.items()},
    }
    (out / "summary.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")

    # Token views of every run would make the file slow to open: those of the first seed are enough.
    everything = [
        run if number == 0 else dataclasses.replace(run, rollouts=[])
        for mine in runs.values()
        for number, run in enumerate(mine)
    ]
    curves = [curve for end in PICTURE for curve in curves_of(everything) if curve[0].endswith(end)]
    (out / "curves.png").write_bytes(png(series(everything), curves))
    introduction = "".join(
        f'<div class="wide">{html_table(title, rows)}</div>'
        for title, rows in (
            (head, rows),
            ([f"Difference to {names.get(BASELINE, BASELINE)} with the same seed", *FIGURES], differences),
            (entropy_head, entropies),
        )
        if rows
    )
    title = f"Five algorithms, {max(map(len, folders.values()))} seeds each" if len(folders) == 5 else "Comparison"
    (out / "report.html").write_text(page(everything, title=title, introduction=introduction), encoding="utf-8")
    return text


def markdown(head: Sequence[Any], rows: Sequence[Sequence[Any]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def html_table(head: Sequence[Any], rows: Sequence[Sequence[Any]]) -> str:
    cells = [(html.escape(str(row[0])), [_bold(html.escape(str(cell))) for cell in row[1:]]) for row in rows]
    caption = f"<h2>{html.escape(str(head[0]) or 'The last measurement')}</h2>"
    return caption + table([html.escape(str(cell)) for cell in head[1:]], cells)


def _bold(cell: str) -> str:
    return f"<b>{cell.strip('*')}</b>" if cell.startswith("**") else cell
