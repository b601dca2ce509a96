"""The results of a study: intervals over seeds, differences to a baseline with the same seeds, figures of the course
of training, the report.

Everything is computed from the files of the runs, so the report of a finished study can be written again.
"""

from __future__ import annotations

import dataclasses
import html
import json
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import record
from inference import holm, mean_and_half, paired
from openrlhf_gtpo.report.curves import curves_of, png, smoothed, width
from openrlhf_gtpo.report.page import page, table
from openrlhf_gtpo.report.run import Run, read, series
from openrlhf_gtpo.tables import markdown
from record import final

FIGURES = ("pass@1", "pass@4", "pass@8", "pass@32", "entropy_response_mean", "response_length")
"""Columns of the table, from the final evaluation; pass@1 is the mean over the samples, Mean@32."""


@dataclass(frozen=True)
class Interval:
    """A mean over seeds and half the width of its 95 % interval (Student's t); None for one seed."""

    mean: float
    half: float | None

    def __str__(self) -> str:
        size = abs(self.mean)
        places = 0 if size >= 1000 else 1 if size >= 10 else 3
        width = "" if self.half is None else f" ± {self.half:,.{places}f}"
        return f"{self.mean:,.{places}f}{width}"


def interval(values: Sequence[float]) -> Interval:
    return Interval(*mean_and_half(values))


@dataclass(frozen=True)
class Entropy:
    """The course of a run's entropy, nats a token."""

    first: float
    """Of the first step."""
    lowest: float
    """Of the running mean, as the other two."""
    lowest_step: int
    last: float

    @classmethod
    def of(cls, run: Run) -> Entropy:
        points = run.points("entropy/token_mean")
        means = smoothed(points, width([len(points)]))
        step, lowest = min(means, key=lambda point: point[1])
        return cls(points[0][1], lowest, step, means[-1][1])

    @property
    def rebound(self) -> float:
        """The last value minus the lowest."""
        return self.last - self.lowest


def seconds_a_step(run: Run) -> float:
    """Wall time of a step, without evaluations and without the first steps, which are slower."""
    return statistics.fmean(row["timing/step_total"] for row in run.metrics[5:] or run.metrics)


def responses(run: Run) -> float:
    """Responses that were generated, including those that dynamic filtering dropped."""
    last = run.metrics[-1]
    measured = sum(row.get("eval_num_samples", 0) for row in run.evaluations if row["step"] < last["step"])
    return last["reward/items_total"] - measured


def level_reached(run: Run, level: float) -> int | None:
    """The step of the first evaluation during training whose pass@1 is at least `level`."""
    for row in run.evaluations:
        if any(re.fullmatch("eval_.+_pass1", key) and row[key] >= level for key in row if row[key] is not None):
            return row["step"]
    return None


def prompts_consumed(run: Run, until: int | None = None) -> float | None:
    """Prompts that the steps up to and including `until` took, with those that dynamic filtering dropped.

    The metric counts from the beginning of the run.
    """
    so_far = [value for step, value in run.points("rollout/prompts_consumed") if until is None or step <= until]
    return so_far[-1] if so_far else None


def prompts_to(run: Run, level: float) -> float | None:
    """Prompts consumed until `level` was reached."""
    step = level_reached(run, level)
    return None if step is None else prompts_consumed(run, step)


def average(run: Run, key: str, of: str) -> float | None:
    """The mean of a share over the steps, weighted by the number that it is a share of.

    Args:
        run: the run.
        key: metric of the share.
        of: metric of that number.
    """
    values, weights = dict(run.points(key)), dict(run.points(of))
    total = sum(weights.values())
    return sum(value * weights[step] for step, value in values.items()) / total if total else None


@dataclass(frozen=True)
class Column:
    """A figure from a run's log of training; None if the run does not have it."""

    title: str
    value: Callable[[Run], float | None]
    missing: str = ""
    """The cell if no run has the figure."""
    every_seed: bool = False
    """Whether the cell lists every run's figure instead of their interval."""
    whole: bool = False
    """Whether the cell has only the mean, as a whole number."""

    def cell(self, runs: Sequence[Run]) -> str:
        values = [value for run in runs if (value := self.value(run)) is not None]
        if not values:
            return self.missing
        if self.every_seed:
            return " ".join(f"{value:g}" for value in values)
        text = f"{statistics.fmean(values):,.0f}" if self.whole else str(interval(values))
        return text if len(values) == len(runs) else f"{text} ({len(values)} of {len(runs)} seeds)"


@dataclass(frozen=True)
class Table:
    """A table of figures of the course of training, with a row for each algorithm."""

    title: str
    columns: tuple[Column, ...]


ENTROPY = Table(
    "Entropy in training",
    (
        Column("first", lambda run: Entropy.of(run).first),
        Column("lowest", lambda run: Entropy.of(run).lowest),
        Column("last", lambda run: Entropy.of(run).last),
        Column("rebound (last - lowest)", lambda run: Entropy.of(run).rebound),
        Column("steps of the lowest", lambda run: Entropy.of(run).lowest_step, every_seed=True),
    ),
)


@dataclass(frozen=True)
class Layout:
    """The tables and pictures of a study."""

    baseline: str
    """The algorithm with which the others are compared."""
    figures: tuple[str, ...]
    """Figures of the final evaluation."""
    columns: tuple[Column, ...]
    """Figures of training, in the same table."""
    tables: tuple[Table, ...]
    picture: tuple[str, ...]
    """Ends of the keys of the curves in curves.png."""
    measured: tuple[str, ...] = ("start",)
    """Folders with evaluations of policies from before the runs: the first rows of the table."""


COMPARISON = Layout(
    baseline="grpo",
    figures=FIGURES,
    columns=(Column("seconds a step", seconds_a_step), Column("responses", responses, whole=True)),
    tables=(ENTROPY,),
    picture=(
        "rollout/pass_rate",
        "_pass1",
        "_pass16",
        "entropy/token_mean",
        "rollout/response_length_mean",
        "groups/uninformative_share",
    ),
)


@dataclass(frozen=True)
class Finished:
    """What the tables of a study are made of."""

    runs: Mapping[str, Sequence[Run]]
    """Key of an algorithm -> its runs, one for each seed."""
    finals: Mapping[str, Mapping[int, Mapping[str, float]]]
    """Key -> seed -> the figures of the evaluation at the run's end."""
    before: Mapping[str, Mapping[str, float]]
    """The same of the policies from before the runs."""


Cells = tuple[list[Any], list[list[Any]]]
"""A table: its head, its rows."""


def tables(found: Finished, names: Mapping[str, str], layout: Layout) -> tuple[str, list[Cells]]:
    """The tables of a study for people, as Markdown and as cells.

    Args:
        found: the runs.
        names: key of an algorithm -> its name.
        layout: of the study.
    """
    rows: list[list[Any]] = [
        [name, *(Interval(figures[key], None) for key in layout.figures), *("" for _ in layout.columns)]
        for name, figures in found.before.items()
    ]
    for key, mine in found.runs.items():
        cells = [interval([final[figure] for final in found.finals[key].values()]) for figure in layout.figures]
        rows.append([names[key], *cells, *(column.cell(mine) for column in layout.columns)])
    head = ["", *layout.figures, *(column.title for column in layout.columns)]
    base = layout.baseline
    others = [key for key in found.runs if key != base and base in found.runs]
    differences = compared(others, base, found.finals, layout.figures, names)
    courses: list[Cells] = [
        (
            [course.title, *(column.title for column in course.columns)],
            [[names[key], *(column.cell(mine) for column in course.columns)] for key, mine in found.runs.items()],
        )
        for course in layout.tables
    ]
    text = f"{markdown(head, rows)}\n\nMean over seeds ± half a 95 % interval (Student's t over seeds).\n"
    if differences:
        text += (
            f"\nDifference to {names[base]} with the same seed. Each interval is a 95 % interval by itself; bold "
            "where p is below 0.05 (Student's paired t test) after Holm's correction for the "
            f"{len(differences) * len(layout.figures)} comparisons of this table.\n\n"
            f"{markdown(['', *layout.figures], differences)}\n"
        )
    text += "".join(f"\n{markdown(*course)}\n" for course in courses)
    gaps: Cells = ([f"Difference to {names.get(base, base)} with the same seed", *layout.figures], differences)
    return text, [(head, rows), gaps, *courses]


def analyse(records: Path, out: Path, names: Mapping[str, str], layout: Layout) -> str:
    """Write table.md out of the records of a folder, as `write` does out of the runs' files; returns the tables.

    Args:
        records: folder of the records.
        out: where to.
        names: key of an algorithm -> its name, in the order of the tables.
        layout: of the study.

    Raises:
        ValueError: the records cannot be compared.
    """
    loaded = record.load(records)
    record.check(loaded)
    mine = {key: [one for one in loaded if one.arm == key] for key in names}
    found = Finished(
        {key: [one.run for one in some] for key, some in mine.items() if some},
        {key: {one.seed: one.final for one in some} for key, some in mine.items() if some},
        loaded[0].before,
    )
    text, _ = tables(found, names, layout)
    (out / "table.md").write_text(text, encoding="utf-8")
    return text


def write(
    out: Path,
    names: Mapping[str, str],
    folders: Mapping[str, Sequence[Path]],
    layout: Layout = COMPARISON,
    title: str = "Comparison",
) -> str:
    """Write summary.json, table.md, curves.png and report.html.

    Args:
        out: the study's folder, with the folders of layout.measured; start/ is the policy with which all runs began.
        names: key of an algorithm -> its name.
        folders: key -> the folders of its runs, one for each seed, in their order from 0.
        layout: tables and pictures.
        title: of the report.

    Returns:
        The tables for people, as Markdown.
    """
    runs = {key: [read(folder) for folder in mine] for key, mine in folders.items()}
    finals = {
        key: {seed: final(folder / "final") for seed, folder in enumerate(mine)} for key, mine in folders.items()
    }
    before = {name: final(out / name) for name in layout.measured}
    text, cells = tables(Finished(runs, finals, before), names, layout)
    (out / "table.md").write_text(text, encoding="utf-8")
    columns = list(layout.columns)  # entropy has its own entry below
    columns += [column for course in layout.tables if course is not ENTROPY for column in course.columns]
    summary = {
        **before,
        "runs": {key: list(mine.values()) for key, mine in finals.items()},
        "entropy": {key: [dataclasses.asdict(Entropy.of(run)) for run in mine] for key, mine in runs.items()},
        **{
            column.title.replace(" ", "_"): {key: [column.value(run) for run in mine] for key, mine in runs.items()}
            for column in columns
        },
    }
    (out / "summary.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")

    # Token views of every run would make the file slow to open: those of the first seed are enough.
    everything = [
        run if number == 0 else dataclasses.replace(run, rollouts=None)
        for mine in runs.values()
        for number, run in enumerate(mine)
    ]
    curves = [curve for end in layout.picture for curve in curves_of(everything) if curve[0].endswith(end)]
    (out / "curves.png").write_bytes(png(series(everything), curves))
    introduction = "".join(f'<div class="wide">{html_table(*one)}</div>' for one in cells if one[1])
    (out / "report.html").write_text(page(everything, title=title, introduction=introduction), encoding="utf-8")
    return text


def compared(
    keys: Sequence[str],
    base: str,
    finals: Mapping[str, Mapping[int, Mapping[str, float]]],
    figures: Sequence[str],
    names: Mapping[str, str],
) -> list[list[str]]:
    """Rows of differences to the baseline between runs of the same seed, corrected for their number.

    Args:
        keys: algorithms.
        base: the one that is subtracted.
        finals: key -> seed -> the figures.
        figures: columns.
        names: key of an algorithm -> its name.
    """
    values = {
        key: [{seed: run[figure] for seed, run in finals[key].items()} for figure in figures]
        for key in ((*keys, base) if keys else ())
    }
    tests = [paired(mine, other) for key in keys for mine, other in zip(values[key], values[base], strict=True)]
    corrected = iter(holm([1.0 if test is None or test.p is None else test.p for test in tests]))
    rows = []
    for key in keys:
        cells = []
        for mine, other in zip(values[key], values[base], strict=True):
            shared = sorted(mine.keys() & other.keys())
            gap = interval([mine[seed] - other[seed] for seed in shared]) if shared else ""
            cells.append(f"**{gap}**" if next(corrected) < 0.05 else str(gap))
        rows.append([names[key], *cells])
    return rows


def html_table(head: Sequence[Any], rows: Sequence[Sequence[Any]]) -> str:
    cells = [(html.escape(str(row[0])), [_bold(html.escape(str(cell))) for cell in row[1:]]) for row in rows]
    caption = f"<h2>{html.escape(str(head[0]) or 'The last measurement')}</h2>"
    return caption + table([html.escape(str(cell)) for cell in head[1:]], cells)


def _bold(cell: str) -> str:
    return f"<b>{cell.strip('*')}</b>" if cell.startswith("**") else cell
