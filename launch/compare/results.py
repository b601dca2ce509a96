"""The results of a study: intervals over seeds or initial policies, differences to a baseline with the same policies
and seeds, figures of the course of training, the report.

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
from inference import Replicate, holm, mean_and_half, paired, units
from openrlhf_gtpo.report.curves import curves_of, png, smoothed, width
from openrlhf_gtpo.report.page import page, table
from openrlhf_gtpo.report.run import Run, read, series
from openrlhf_gtpo.tables import markdown
from record import final

FIGURES = ("pass@1", "pass@4", "pass@8", "pass@32", "entropy_response_mean", "response_length")
"""Columns of the table, from the final evaluation; pass@1 is the mean over the samples, Mean@32."""


@dataclass(frozen=True)
class Interval:
    """A mean over seeds or policies and half the width of its 95 % interval (Student's t); None for one of them."""

    mean: float
    half: float | None

    def __str__(self) -> str:
        size = abs(self.mean)
        places = 0 if size >= 1000 else 1 if size >= 10 else 3
        width = "" if self.half is None else f" ± {self.half:,.{places}f}"
        return f"{self.mean:,.{places}f}{width}"


def interval(values: Mapping[Replicate, float], by_policy: bool = False) -> Interval:
    return Interval(*mean_and_half(list(units(values, by_policy).values())))


def over(by_policy: bool) -> str:
    """What the intervals of a table are over, in a sentence."""
    if by_policy:
        return (
            "Mean over initial policies of the means over their seeds ± half a 95 % interval (Student's t over "
            "policies). Differences are those of runs with the same policy and seed; they are averaged for each "
            "policy first, and tests and intervals are over policies."
        )
    return "Mean over seeds ± half a 95 % interval (Student's t over seeds)."


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

    def cell(self, runs: Mapping[Replicate, Run], by_policy: bool = False) -> str:
        values = {key: value for key, run in runs.items() if (value := self.value(run)) is not None}
        if not values:
            return self.missing
        if self.every_seed:
            return " ".join(f"{value:g}" for value in values.values())
        text = f"{statistics.fmean(values.values()):,.0f}" if self.whole else str(interval(values, by_policy))
        return text if len(values) == len(runs) else f"{text} ({len(values)} of {len(runs)} runs)"


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

    runs: Mapping[str, Mapping[Replicate, Run]]
    """Key of an algorithm -> its runs."""
    finals: Mapping[str, Mapping[Replicate, Mapping[str, float]]]
    """Key -> replicate -> the figures of the evaluation at the run's end."""
    before: Mapping[str, Sequence[Mapping[str, float]]]
    """The same of the policies from before the runs: of each initial policy, of the guide."""

    @property
    def by_policy(self) -> bool:
        """Whether there are several initial policies, so that intervals are over them."""
        return len({policy for mine in self.runs.values() for policy, _ in mine}) > 1


Cells = tuple[list[Any], list[list[Any]]]
"""A table: its head, its rows."""


def tables(found: Finished, names: Mapping[str, str], layout: Layout) -> tuple[str, list[Cells]]:
    """The tables of a study for people, as Markdown and as cells.

    Args:
        found: the runs.
        names: key of an algorithm -> its name.
        layout: of the study.
    """
    rows: list[list[Any]] = []
    for name, measured in found.before.items():
        means = [statistics.fmean(figures[key] for figures in measured) for key in layout.figures]
        rows.append([name, *(Interval(mean, None) for mean in means), *("" for _ in layout.columns)])
    by_policy = found.by_policy
    for key, mine in found.runs.items():
        finals = found.finals[key].items()
        cells = [interval({at: final[figure] for at, final in finals}, by_policy) for figure in layout.figures]
        rows.append([names[key], *cells, *(column.cell(mine, by_policy) for column in layout.columns)])
    head = ["", *layout.figures, *(column.title for column in layout.columns)]
    base = layout.baseline
    others = [key for key in found.runs if key != base and base in found.runs]
    differences = compared(others, base, found.finals, layout.figures, names, by_policy)
    courses: list[Cells] = [
        (
            [course.title, *(column.title for column in course.columns)],
            [
                [names[key], *(column.cell(mine, by_policy) for column in course.columns)]
                for key, mine in found.runs.items()
            ],
        )
        for course in layout.tables
    ]
    text = f"{markdown(head, rows)}\n\n{over(by_policy)}\n"
    same = "with the same policy and seed" if by_policy else "with the same seed"
    if differences:
        text += (
            f"\nDifference to {names[base]} {same}. Each interval is a 95 % interval by itself; bold "
            "where p is below 0.05 (Student's paired t test) after Holm's correction for the "
            f"{len(differences) * len(layout.figures)} comparisons of this table.\n\n"
            f"{markdown(['', *layout.figures], differences)}\n"
        )
    text += "".join(f"\n{markdown(*course)}\n" for course in courses)
    gaps: Cells = ([f"Difference to {names.get(base, base)} {same}", *layout.figures], differences)
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
    starts = {one.policy: one.before for one in loaded}.values()
    found = Finished(
        {key: {one.replicate: one.run for one in some} for key, some in mine.items() if some},
        {key: {one.replicate: one.final for one in some} for key, some in mine.items() if some},
        {name: [before[name] for before in starts] for name in loaded[0].before},
    )
    text, _ = tables(found, names, layout)
    (out / "table.md").write_text(text, encoding="utf-8")
    return text


def write(
    out: Path,
    names: Mapping[str, str],
    folders: Mapping[str, Mapping[Replicate, Path]],
    layout: Layout = COMPARISON,
    title: str = "Comparison",
) -> str:
    """Write summary.json, table.md, curves.png and report.html.

    Args:
        out: the study's folder, with the folders of layout.measured; start/ and start-policy-N/ are the policies with
            which the runs began.
        names: key of an algorithm -> its name.
        folders: key -> the folders of its runs.
        layout: tables and pictures.
        title: of the report.

    Returns:
        The tables for people, as Markdown.
    """
    runs = {key: {at: read(folder) for at, folder in mine.items()} for key, mine in folders.items()}
    finals = {key: {at: final(folder / "final") for at, folder in mine.items()} for key, mine in folders.items()}
    policies = sorted({policy for mine in folders.values() for policy, _ in mine})
    before = {name: [final(record.measured(out, name, one)) for one in policies] for name in layout.measured}
    found = Finished(runs, finals, before)
    text, cells = tables(found, names, layout)
    (out / "table.md").write_text(text, encoding="utf-8")
    columns = list(layout.columns)  # entropy has its own entry below
    columns += [column for course in layout.tables if course is not ENTROPY for column in course.columns]
    summary = {
        **before,
        "runs": {key: list(mine.values()) for key, mine in finals.items()},
        "entropy": {key: [dataclasses.asdict(Entropy.of(run)) for run in mine.values()] for key, mine in runs.items()},
        **{
            column.title.replace(" ", "_"): {
                key: [column.value(run) for run in mine.values()] for key, mine in runs.items()
            }
            for column in columns
        },
    }
    (out / "summary.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")

    report(out, runs, layout.picture, cells, title)
    return text


def report(
    out: Path,
    runs: Mapping[str, Mapping[Replicate, Run]],
    picture: Sequence[str],
    tables: Sequence[Cells],
    title: str,
) -> None:
    """Write curves.png and report.html.

    Args:
        out: where to.
        runs: key of an algorithm -> its runs.
        picture: ends of the keys of the curves in curves.png.
        tables: shown first.
        title: of the report.
    """
    policies = {policy for mine in runs.values() for policy, _ in mine}
    everything: list[Run] = []
    for key, mine in runs.items():
        for number, run in enumerate(mine.values()):
            # Token views of every run would make the file slow to open: those of the first are enough.
            shown = dataclasses.replace(run, rollouts=None) if number else run
            if len(policies) > 1:  # the runs of all policies are one curve with a band
                settings = run.settings | {"actor.model_name_or_path": f"{len(policies)} policies"}
                shown = dataclasses.replace(shown, name=f"{key}-{number}", settings=settings)
            everything.append(shown)
    curves = [curve for end in picture for curve in curves_of(everything) if curve[0].endswith(end)]
    (out / "curves.png").write_bytes(png(series(everything), curves))
    introduction = "".join(f'<div class="wide">{html_table(*one)}</div>' for one in tables if one[1])
    (out / "report.html").write_text(page(everything, title=title, introduction=introduction), encoding="utf-8")


def compared(
    keys: Sequence[str],
    base: str,
    finals: Mapping[str, Mapping[Replicate, Mapping[str, float]]],
    figures: Sequence[str],
    names: Mapping[str, str],
    by_policy: bool,
) -> list[list[str]]:
    """Rows of differences to the baseline between runs of the same policy and seed, corrected for their number.

    Args:
        keys: algorithms.
        base: the one that is subtracted.
        finals: key -> replicate -> the figures.
        figures: columns.
        names: key of an algorithm -> its name.
        by_policy: whether intervals and tests are over policies.
    """
    values = {
        key: [{at: run[figure] for at, run in finals[key].items()} for figure in figures]
        for key in ((*keys, base) if keys else ())
    }
    tests = [
        paired(mine, other, by_policy) for key in keys for mine, other in zip(values[key], values[base], strict=True)
    ]
    corrected = iter(holm([1.0 if test is None or test.p is None else test.p for test in tests]))
    rows = []
    for key in keys:
        cells = []
        for mine, other in zip(values[key], values[base], strict=True):
            shared = sorted(mine.keys() & other.keys())
            gap = interval({at: mine[at] - other[at] for at in shared}, by_policy) if shared else ""
            cells.append(f"**{gap}**" if next(corrected) < 0.05 else str(gap))
        rows.append([names[key], *cells])
    return rows


def html_table(head: Sequence[Any], rows: Sequence[Sequence[Any]]) -> str:
    cells = [(html.escape(str(row[0])), [_bold(html.escape(str(cell))) for cell in row[1:]]) for row in rows]
    caption = f"<h2>{html.escape(str(head[0]) or 'The last measurement')}</h2>"
    return caption + table([html.escape(str(cell)) for cell in head[1:]], cells)


def _bold(cell: str) -> str:
    return f"<b>{cell.strip('*')}</b>" if cell.startswith("**") else cell
