"""The results of a study: intervals over its runs, differences to a baseline between runs that share policy and seed,
figures of the course of training, the report.

Tables are made of the records of runs, so those of a finished study can be made again.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import record
from contrasts import Pair, Values, comparisons, table
from inference import Replicate, mean_and_half
from openrlhf_gtpo.report.command import page
from openrlhf_gtpo.report.curves import CURVES, picture
from openrlhf_gtpo.report.run import Run
from record import Record

FIGURES = ("pass@1", "pass@4", "pass@8", "pass@32", "entropy_response_mean", "response_length")
"""Columns of the table, from the final evaluation; pass@1 is the mean over the samples, Mean@32."""


@dataclass(frozen=True)
class Interval:
    """A mean over runs and half the width of its 95 % interval (Student's t); None for one of them."""

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
    def of(cls, run: Record) -> Entropy:
        points = run.points("entropy")
        means = smoothed(points)
        step, lowest = min(means, key=lambda point: point[1])
        return cls(points[0][1], lowest, step, means[-1][1])

    @property
    def rebound(self) -> float:
        """The last value minus the lowest."""
        return self.last - self.lowest


def smoothed(points: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """The running mean over a tenth of a long curve, an odd number of points, at the step in the middle of each. Only
    whole windows are used: at the ends a mean over fewer points would be noisy."""
    half = min(len(points) // 20, (len(points) // 2 - 1) // 2) if len(points) >= SMOOTHED_FROM else 0
    return [
        (points[i][0], statistics.fmean(value for _, value in points[i - half : i + half + 1]))
        for i in range(half, len(points) - half)
    ]


def seconds_a_step(run: Record) -> float:
    """Wall time of a step, without evaluations and without the first steps, which are slower."""
    seconds = [value for _, value in run.points("seconds")]
    return statistics.fmean(seconds[5:] or seconds)


def responses(run: Record) -> float:
    """Responses that were generated, including those that dynamic filtering dropped."""
    last, items = run.points("responses")[-1]
    return items - sum(row.get("samples", 0) for row in run.evaluations if row["step"] < last)


def level_reached(run: Record, level: float) -> int | None:
    """The step of the first evaluation during training whose pass@1 is at least `level`."""
    return next((int(row["step"]) for row in run.evaluations if row["pass@1"] >= level), None)


def prompts_consumed(run: Record, until: int | None = None) -> float | None:
    """Prompts that the steps up to and including `until` took, with those that dynamic filtering dropped.

    The metric counts from the beginning of the run.
    """
    so_far = [value for step, value in run.points("prompts") if until is None or step <= until]
    return so_far[-1] if so_far else None


def prompts_to(run: Record, level: float) -> float | None:
    """Prompts consumed until `level` was reached."""
    step = level_reached(run, level)
    return None if step is None else prompts_consumed(run, step)


def mean_of(run: Record, name: str) -> float | None:
    """The mean over the steps that have the figure; None where none has."""
    values = [value for _, value in run.points(name)]
    return statistics.fmean(values) if values else None


def average(run: Record, name: str, of: str) -> float | None:
    """The mean of a share over the steps, weighted by the number that it is a share of.

    Args:
        run: the run.
        name: the share, in the record's training.
        of: that number, there too.
    """
    values, weights = dict(run.points(name)), dict(run.points(of))
    total = sum(weights.values())
    return sum(value * weights[step] for step, value in values.items()) / total if total else None


@dataclass(frozen=True)
class Column:
    """A figure of a run's training; None if the run does not have it."""

    title: str
    value: Callable[[Record], float | None]
    missing: str = ""
    """The cell if no run has the figure."""
    every_seed: bool = False
    """Whether the cell lists every run's figure instead of their interval."""
    whole: bool = False
    """Whether the cell has only the mean, as a whole number."""

    def cell(self, runs: Sequence[Record]) -> str:
        values = [value for run in runs if (value := self.value(run)) is not None]
        if not values:
            return self.missing
        if self.every_seed:
            return " ".join(f"{value:g}" for value in values)
        text = f"{statistics.fmean(values):,.0f}" if self.whole else str(interval(values))
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
    planned: tuple[Pair, ...] = ()
    """Pairs of algorithms whose difference in the first figure is tested, in place of those to the baseline."""


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

REAL = Layout(
    baseline="grpo",
    figures=("pass@1", "pass@16", "entropy_response_mean", "response_length"),
    columns=(
        Column("pass rate in training", lambda run: mean_of(run, "reward")),
        Column("best token after the answer", lambda run: mean_of(run, "after_answer")),
        Column("seconds a step", seconds_a_step),
    ),
    tables=(ENTROPY,),
    picture=("rollout/pass_rate", "entropy/token_mean", "rollout/response_length_mean", "groups/uninformative_share"),
    planned=(("gtpo", "grpo"), ("gtpo", "gtpo_0"), ("gtpo_until", "gtpo")),
)

SMOOTHED_FROM = 40
"""A shorter curve is taken as it is."""

Cells = tuple[list[Any], list[list[Any]]]
"""A table: its head, its rows."""


def analyse(records: Path, out: Path, names: Mapping[str, str], layout: Layout) -> str:
    """Write table.md, a study's tables, out of the records of a folder.

    Args:
        records: folder of the records.
        out: where to.
        names: key of an algorithm -> its name, in the order of the tables.
        layout: of the study.

    Returns:
        The tables as Markdown.

    Raises:
        ValueError: the records cannot be compared.
    """
    loaded = record.load(records)
    record.check(loaded)
    runs = {key: mine for key in names if (mine := [one for one in loaded if one.arm == key])}
    rows: list[list[Any]] = []
    for name, figures in loaded[0].before.items():
        means = [Interval(figures[key], None) for key in layout.figures]
        rows.append([name, *means, *("" for _ in layout.columns)])
    for key, mine in runs.items():
        cells = [interval([run.final[figure] for run in mine]) for figure in layout.figures]
        rows.append([names[key], *cells, *(column.cell(mine) for column in layout.columns)])
    head = ["", *layout.figures, *(column.title for column in layout.columns)]
    text = f"{markdown(head, rows)}\n\nMean over seeds ± half a 95 % interval (Student's t over seeds).\n"
    if layout.planned:
        head, tests = table(comparisons(layout.planned, outcomes(runs, layout), layout.figures[:1]), names)
        text += (
            f"\nDifferences between runs with the same seed, bold where they are shown.\n\n{markdown(head, tests)}\n"
        )
    elif gaps := differences(runs, names, layout):
        text += (
            f"\nDifference to {names[layout.baseline]} with the same seed. Each interval is a 95 % interval by "
            "itself; bold where p is below 0.05 (Student's paired t test) after "
            f"Holm's correction for the {len(gaps) * len(layout.figures)} comparisons of this table.\n\n"
            f"{markdown(['', *layout.figures], gaps)}\n"
        )
    courses: list[Cells] = [
        (
            [course.title, *(column.title for column in course.columns)],
            [[names[key], *(column.cell(mine) for column in course.columns)] for key, mine in runs.items()],
        )
        for course in layout.tables
    ]
    text += "".join(f"\n{markdown(*course)}\n" for course in courses)
    (out / "table.md").write_text(text, encoding="utf-8")
    return text


def differences(runs: Mapping[str, Sequence[Record]], names: Mapping[str, str], layout: Layout) -> list[list[Any]]:
    """Rows of differences to the baseline between runs of the same seed, corrected for their number; none where two
    seeds or the baseline are missing."""
    values = outcomes(runs, layout)
    pairs = [(key, layout.baseline) for key in runs if key != layout.baseline]
    cells: dict[str, list[str]] = {}
    for test in comparisons(pairs, values, layout.figures):
        gap = str(Interval(test.gap.mean, test.gap.half))
        cells.setdefault(test.pair[0], []).append(f"**{gap}**" if test.is_shown else gap)
    return [[names[key], *mine] for key, mine in cells.items()]


def outcomes(runs: Mapping[str, Sequence[Record]], layout: Layout) -> Values:
    """The figures of the final evaluations."""
    return {
        key: {figure: {run.replicate: run.final[figure] for run in mine} for figure in layout.figures}
        for key, mine in runs.items()
    }


def report(out: Path, runs: Mapping[str, Mapping[Replicate, Run]], shown: Sequence[str]) -> None:
    """Write curves.png and report.html: of each algorithm the mean over its runs, and the tokens of the first.

    Args:
        out: where to.
        runs: key of an algorithm -> its runs.
        shown: ends of the keys of the curves in curves.png.
    """
    means = [mean_run(key, list(mine.values())) for key, mine in runs.items()]
    keys = [key for run in means for row in (*run.metrics, *run.evaluations) for key in row]
    drawn = {key: CURVES.get(key, key) for end in shown for key in dict.fromkeys(keys) if key.endswith(end)}
    (out / "curves.png").write_bytes(picture(means, "png", drawn))
    (out / "report.html").write_text(page(means), encoding="utf-8")


def mean_run(name: str, runs: Sequence[Run]) -> Run:
    """The mean of several runs, step by step, over those that have the value; everything else is the first's."""

    def mean(rows: Sequence[list[dict[str, Any]]]) -> list[dict[str, Any]]:
        by_step: dict[int, dict[str, list[float]]] = {}
        for row in (row for one in rows for row in one):
            for key, value in row.items():
                if isinstance(value, (int, float)):
                    by_step.setdefault(row["step"], {}).setdefault(key, []).append(value)
        return [
            {"step": step, **{key: statistics.fmean(values) for key, values in of.items() if key != "step"}}
            for step, of in sorted(by_step.items())
        ]

    metrics, evaluated = mean([run.metrics for run in runs]), mean([run.evaluations for run in runs])
    return dataclasses.replace(runs[0], name=name, metrics=metrics, evaluations=evaluated)


def markdown(head: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown, without a line end behind it; a ``|`` in a cell is escaped, so that it ends no cell."""

    def line(cells: Sequence[object]) -> str:
        return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"

    return "\n".join([line(head), "|" + "---|" * len(head), *map(line, rows)])
