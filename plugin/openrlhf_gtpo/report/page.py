"""The report as one HTML file: figures of the last steps, curves, settings, environment, and the token view."""

import html
import json
import statistics
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from openrlhf_gtpo.report.curves import curves_of, svg
from openrlhf_gtpo.report.groups import groups
from openrlhf_gtpo.report.run import OWN, Run, Series, series

__all__ = ["page"]

LAST_STEPS = 10
"""Steps whose mean stands in the table."""


def page(runs: Sequence[Run], *, title: str | None = None, introduction: str = "") -> str:
    """A document that works without a network and without a server.

    Args:
        runs: those with the same settings but for the seed are drawn as one curve with a band.
        title: by default the names of the series.
        introduction: HTML that stands first.
    """
    folder = files("openrlhf_gtpo.report")
    all_series = series(runs)
    pictures = [svg(all_series, curve) for curve in curves_of(runs)]
    views = [{"run": run.name, "groups": groups(run.rollouts)} for run in runs if run.rollouts]
    # "</" would end the script element inside a string.
    data = json.dumps(views, ensure_ascii=False).replace("</", "<\\/")
    return (folder / "page.html").read_text(encoding="utf-8") % {
        "title": html.escape(title or "Runs: " + ", ".join(one.name for one in all_series)),
        "style": (folder / "page.css").read_text(encoding="utf-8"),
        "introduction": introduction,
        "table": _last_steps(all_series),
        "caption": _caption(all_series),
        "curves": "\n".join(f'<figure class="curve">{picture}</figure>' for picture in pictures if picture),
        "settings": _settings(all_series),
        "environment": _environment(runs),
        "data": data,
        "script": (folder / "page.js").read_text(encoding="utf-8"),
    }


def table(head: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]]) -> str:
    """An HTML table of cells that are HTML already; each row begins with its name."""
    heads = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    body = "".join(
        f"<tr><th scope=row>{name}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>" for name, cells in rows
    )
    return f"<table><thead><tr><td></td>{heads}</tr></thead><tbody>{body}</tbody></table>"


def _last_steps(all_series: Sequence[Series]) -> str:
    rows = [("steps", [" ".join(str(len(run.metrics)) for run in one.runs) for one in all_series])]
    for key, name, unit in curves_of([run for one in all_series for run in one.runs]):
        cells = [[value for run in one.runs if (value := _last(run, key)) is not None] for one in all_series]
        rows.append((f"{html.escape(name)} <small>{html.escape(unit)}</small>", [_cell(values) for values in cells]))
    return table([html.escape(one.name) for one in all_series], rows)


def _last(run: Run, key: str) -> float | None:
    """The mean over the last steps, or the last evaluation's value."""
    values = [row[key] for row in run.metrics[-LAST_STEPS:] if row.get(key) is not None]
    values = values or [value for _, value in run.points(key)[-1:]]
    return statistics.fmean(values) if values else None


def _cell(values: Sequence[float]) -> str:
    if not values:
        return ""
    mean = f"{statistics.fmean(values):.4g}"
    return mean if len(values) == 1 else f"{mean} <small>{min(values):.4g} to {max(values):.4g}</small>"


def _caption(all_series: Sequence[Series]) -> str:
    seeds = max(len(one.runs) for one in all_series)
    if seeds == 1:
        return ""
    return (
        f"<p>Lines are means over up to {seeds} seeds, bands reach from the lowest to the highest; small figures in "
        "the table do too. A curve of many steps is a running mean over a tenth of them.</p>"
    )


def _settings(all_series: Sequence[Series]) -> str:
    """In what the series differ, and all settings of each."""
    known = [one for one in all_series if one.runs[0].settings]
    if not known:
        return "<p>These runs have no run.json: an earlier version made them.</p>"
    names = sorted({name for one in known for name in one.runs[0].settings if name not in OWN})
    rows = [(name, [_setting(one.runs[0].settings.get(name)) for one in known]) for name in names]
    head = [html.escape(one.name) for one in known]
    different = [(html.escape(name), cells) for name, cells in rows if len(set(cells)) > 1]
    everything = table(head, [(html.escape(name), cells) for name, cells in rows])
    shown = table(head, different) if different else "<p>The series have the same settings.</p>"
    return f"{shown if len(known) > 1 else ''}<details><summary>All settings</summary>{everything}</details>"


def _setting(value: Any) -> str:
    return html.escape("" if value is None else str(value))


def _environment(runs: Sequence[Run]) -> str:
    known = [run for run in runs if run.environment]
    names = list(dict.fromkeys(name for run in known for name in run.environment))
    rows = []
    for name in names:
        values = dict.fromkeys(_setting(run.environment.get(name)) for run in known)
        rows.append((html.escape(name), [" / ".join(values)]))
    return table([""], rows) if rows else "<p>Not recorded.</p>"
