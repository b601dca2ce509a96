"""The report as one HTML file: curves, figures of the last steps, and the token view."""

import html
import json
import statistics
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from openrlhf_gtpo.report.curves import CURVES, svg
from openrlhf_gtpo.report.groups import groups
from openrlhf_gtpo.report.run import Run

__all__ = ["page"]

LAST_STEPS = 10
"""Steps whose mean stands in the table."""


def page(runs: Sequence[Run]) -> str:
    """A document that works without a network and without a server."""
    folder = files("openrlhf_gtpo.report")
    pictures = [svg(runs, *curve) for curve in CURVES]
    views = [{"run": run.name, "groups": groups(run.rollouts)} for run in runs if run.rollouts]
    # "</" would end the script element inside a string.
    data = json.dumps(views, ensure_ascii=False).replace("</", "<\\/")
    title = "Runs: " + ", ".join(run.name for run in runs)
    return (folder / "page.html").read_text(encoding="utf-8") % {
        "title": html.escape(title),
        "style": (folder / "page.css").read_text(encoding="utf-8"),
        "table": _table(runs),
        "curves": "\n".join(f'<figure class="curve">{picture}</figure>' for picture in pictures if picture),
        "data": data,
        "script": (folder / "page.js").read_text(encoding="utf-8"),
    }


def _table(runs: Sequence[Run]) -> str:
    head = "".join(f'<th scope="col">{html.escape(run.name)}</th>' for run in runs)
    rows = [f"<tr><th scope=row>steps</th>{''.join(f'<td>{len(run.metrics)}</td>' for run in runs)}</tr>"]
    for key, name, unit in CURVES:
        cells = [_last(run.metrics, key) for run in runs]
        if any(cell is not None for cell in cells):
            shown = "".join(f"<td>{'' if cell is None else f'{cell:.4g}'}</td>" for cell in cells)
            rows.append(f"<tr><th scope=row>{name} <small>{html.escape(unit)}</small></th>{shown}</tr>")
    return f"<table><thead><tr><td></td>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _last(metrics: Sequence[dict[str, Any]], key: str) -> float | None:
    values = [row[key] for row in metrics[-LAST_STEPS:] if row.get(key) is not None]
    return statistics.fmean(values) if values else None
