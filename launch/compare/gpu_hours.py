"""How many GPU-hours a study costs on H100s: `openrlhf_gtpo.driver.hours`, summed over its runs.

GPU-hours are the sum over runs of gpus times wall time. docs/studies/entropy_gpu.md explains the inputs and has the
results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

from openrlhf_gtpo.driver.hours import CASES, Input, Inputs, Seconds, Shape, seconds
from openrlhf_gtpo.tables import markdown


def gpu_hours(shape: Shape, inputs: Inputs, case: str, runs: int, filtering_runs: int = 0) -> float:
    """GPU-hours of a study.

    Args:
        shape, inputs, case: as of `seconds`.
        runs: all runs.
        filtering_runs: those of them whose arm filters.
    """
    plain, filtered = (seconds(shape, inputs, case, filters).total for filters in (False, True))
    return shape.gpus * ((runs - filtering_runs) * plain + filtering_runs * filtered) / 3600


def table(studies: Sequence[tuple[str, Shape, Inputs, int, int]]) -> str:
    """GPU-hours of studies, in Markdown.

    Args:
        studies: title, shape, inputs, runs, and those of them whose arm filters.
    """
    rows = []
    for title, shape, inputs, runs, filtering in studies:
        hours = [gpu_hours(shape, inputs, case, runs, filtering) for case in CASES]
        wall = seconds(shape, inputs, "likely").total / 3600
        rows.append([title, runs, f"{wall:.1f}", *(f"{value:,.0f}" for value in hours)])
    head = ["study", "runs", "hours of a run, likely", "GPU-hours, low", "likely", "high"]
    return markdown(head, rows)


def parts(studies: Sequence[tuple[str, Shape, Inputs, int, int]]) -> str:
    """Shares of a run's wall time without filtering, at the likely inputs, in Markdown."""
    rows = []
    for title, shape, inputs, *_ in studies:
        found = seconds(shape, inputs, "likely")
        shares = [f"{100 * getattr(found, part.name) / found.total:.0f} %" for part in fields(found)]
        rows.append([title, *shares])
    return markdown(["study", *(part.name for part in fields(Seconds))], rows)


def one_at_a_time(studies: Sequence[tuple[str, Shape, Inputs, int, int]]) -> str:
    """GPU-hours with one input at its low and high end and the others likely, in Markdown."""
    rows = []
    for part in fields(Inputs):
        cells = []
        for _, shape, inputs, runs, filtering in studies:
            one: Input = getattr(inputs, part.name)
            ends = [
                gpu_hours(shape, replace(inputs, **{part.name: replace(one, likely=end)}), "likely", runs, filtering)
                for end in (one.low, one.high)
            ]
            cells.append(f"{ends[0]:,.0f} to {ends[1]:,.0f}")
        rows.append([part.name, *cells])
    return markdown(["input", *(title for title, *_ in studies)], rows)


def inputs_table(inputs: Inputs) -> str:
    """All inputs with their sources, in Markdown."""
    rows = []
    for part in fields(inputs):
        one: Input = getattr(inputs, part.name)
        rows.append([part.name, *(f"{one.at(case):,g}" for case in CASES), one.unit, one.kind, one.source])
    return markdown(["input", *(f"{case} cost" for case in CASES), "unit", "likely value is", "source"], rows)
