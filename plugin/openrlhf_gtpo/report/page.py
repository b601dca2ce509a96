"""The report as one HTML file: the runs and their verdicts, curves, the token view, settings, environment, and the
meaning of each metric."""

import html
import json
import statistics
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from openrlhf_gtpo.glossary.entries import describe
from openrlhf_gtpo.report.curves import Curve, any_smoothed, curves_of, decides, svg
from openrlhf_gtpo.report.groups import shown, view
from openrlhf_gtpo.report.outcome import Change, Figure, changes, comparison, verdict
from openrlhf_gtpo.report.run import OWN, Run, Series, series

NOT_RECORDED = "not recorded"
"""For runs of early versions, which have no run.json."""

GROUP_BYTES = 18 * 10**6
"""Of all groups on a page, which then has less than 20 MB."""

LAST_STEPS = 10
"""The table has the mean of this many last steps."""

SMOOTHING = "A line is the mean over as many steps as its axis says. The thin line behind it has a single run's steps."

ALGORITHMS = {"gtpo": "GTPO", "grpo_s": "GRPO-S", "group_norm": "GRPO"}
"""Names of estimators; others are shown by their value of the flag."""

FIGURES = {"entropy_token_mean": ("entropy", "nats a token"), "response_length": ("response length", "tokens")}
"""Names and units of an evaluation's figures; others are shown by their key."""


def page(runs: Sequence[Run], *, title: str | None = None, introduction: str = "") -> str:
    """A document that needs no network and no server.

    Args:
        runs: runs that differ only in their seed are drawn as one curve with a band.
        title: by default the names of the series.
        introduction: HTML after the head.
    """
    folder = files("openrlhf_gtpo.report")
    all_series = series(runs)
    curves = curves_of(runs)
    data, told = _token_views([run for run in runs if run.rollouts])
    last = min(run.last_step for run in runs)
    first = max(min(run.metrics[0]["step"] for run in runs), last - LAST_STEPS + 1)
    return (folder / "page.html").read_text(encoding="utf-8") % {
        "title": html.escape(title or f"Run{'s'[: len(runs) > 1]}: {', '.join(one.name for one in all_series)}"),
        "style": (folder / "page.css").read_text(encoding="utf-8"),
        "verdicts": _verdicts(all_series),
        "head": _head(all_series),
        "introduction": introduction,
        "when": _when(runs, first, last),
        "table": _at_one_step(all_series, curves, first, last),
        "caption": _caption(all_series, last),
        "smoothing": f"<p>{SMOOTHING}</p>" if any_smoothed(all_series, curves) else "",
        "curves": _figures(all_series, [curve for curve in curves if decides(curve)]),
        "more": _figures(all_series, [curve for curve in curves if not decides(curve)]),
        "settings": _settings(all_series),
        "environment": _environment(runs),
        "glossary": _glossary(runs),
        "data": data,
        "shown": html.escape(told),
        "script": (folder / "page.js").read_text(encoding="utf-8"),
    }


def _token_views(runs: Sequence[Run]) -> tuple[str, str]:
    """The groups for the token view as JSON, and a sentence about how many of those that were saved they are."""
    views, count, of = [], 0, 0
    for run in runs:
        assert run.rollouts is not None
        chosen = shown(run.rollouts.sizes, GROUP_BYTES // len(runs))
        count, of = count + len(chosen), of + len(run.rollouts)
        # One after the other, since as objects they take ten times the memory.
        texts = [json.dumps(view(run.rollouts[place]), ensure_ascii=False) for place in chosen]
        if texts:
            views.append(f'{{"run": {json.dumps(run.name)}, "groups": [{", ".join(texts)}]}}')
    told = "" if count == of else f"{count:,} of the {of:,} groups that were saved are here, spread over the steps."
    # "</" would end the script element inside a string.
    return f"[{', '.join(views)}]".replace("</", "<\\/"), told


def table(head: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]]) -> str:
    """An HTML table. Cells are HTML; each row is a name and its cells."""
    heads = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    body = "".join(
        f"<tr><th scope=row>{name}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>" for name, cells in rows
    )
    return f"<table><thead><tr><td></td>{heads}</tr></thead><tbody>{body}</tbody></table>"


def _verdicts(all_series: Sequence[Series]) -> str:
    if len(all_series) == 1:
        return f'<p class="verdict">{html.escape(verdict(all_series[0]))}</p>'
    told = [f"<li><b>{html.escape(one.name)}</b>: {html.escape(verdict(one))}</li>" for one in all_series]
    first, *others = all_series
    told += [f"<li>{html.escape(sentence)}</li>" for other in others for sentence in comparison(first, other)]
    return f'<ul class="verdict">{"".join(told)}</ul>'


def _head(all_series: Sequence[Series]) -> str:
    """The table of algorithm, model, data, steps and seed, and of the evaluations before and after."""

    def told(flag: str) -> list[str]:
        return [
            _shared([_setting(run.settings.get(flag)) or "none" if run.settings else NOT_RECORDED for run in one.runs])
            for one in all_series
        ]

    rows = [
        ("algorithm", [ALGORITHMS.get(name, name) for name in told("algo.advantage.estimator")]),
        ("preset", told("preset")),
        ("model", told("actor.model_name_or_path")),
        ("data", told("data.prompt_dataset")),
        ("steps", [_shared([str(run.last_step) for run in one.runs]) for one in all_series]),
        ("seed", told("train.seed")),
    ]
    by_series = [changes(one.runs) for one in all_series]
    for name, benchmark in dict.fromkeys((change.name, change.benchmark) for mine in by_series for change in mine):
        cells = [[one for one in mine if (one.name, one.benchmark) == (name, benchmark)] for mine in by_series]
        label, unit = FIGURES.get(name, (name, ""))
        label = f"{html.escape(f'{label} on {benchmark}')} <small>{unit}</small>"
        rows.append((label, [_change(mine) for mine in cells]))
    return table([html.escape(one.name) for one in all_series], rows)


def _shared(values: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(values))


def _change(changed: Sequence[Change]) -> str:
    """The figures before and after: with intervals for one run, means for several."""
    if not changed:
        return ""
    told = []
    for end, name in zip(("before", "after"), changed[0].when, strict=True):
        figures: list[Figure] = [getattr(one, end) for one in changed]
        low, high = figures[0].low, figures[0].high
        interval = f" <small>{low:.3g} to {high:.3g}</small>" if len(changed) == 1 and low is not None else ""
        told.append(
            f"<span><small>{name}</small> {statistics.fmean(figure.mean for figure in figures):.3g}{interval}</span>"
        )
    return " ".join(told)


def _when(runs: Sequence[Run], first: int, last: int) -> str:
    """The heading of the table of means."""
    if first == last:
        return f"Step {last}"
    if last - first + 1 < LAST_STEPS:
        return f"Steps {first} to {last}, on average"
    shared = " that all runs have" if any(run.last_step > last for run in runs) else ""
    return f"The last {LAST_STEPS} steps{shared} ({first} to {last}), on average"


def _at_one_step(all_series: Sequence[Series], curves: Sequence[Curve], first: int, last: int) -> str:
    """The table of means over the steps from ``first`` to ``last``, which every run has; for evaluations, of the last
    one by then that all runs have."""
    rows = []
    for key, name, unit in curves:
        points = [[dict(run.points(key)) for run in one.runs] for one in all_series]
        with_any = [by_step for mine in points for by_step in mine if by_step]
        steps: set[int] = set(range(first, last + 1))
        if key.startswith("eval_"):
            shared = [step for step in set.intersection(*(set(by_step) for by_step in with_any)) if step <= last]
            steps = {max(shared)} if shared else set()
            unit = f"{unit}, step {max(shared)}" if shared else unit
        cells = []
        for mine in points:
            values = [[value for step, value in by_step.items() if step in steps] for by_step in mine]
            cells.append(_cell([statistics.fmean(figures) for figures in values if figures]))
        rows.append((f"{_linked(key, name)} <small>{html.escape(unit)}</small>", cells))
    return table([html.escape(one.name) for one in all_series], rows)


def _cell(values: Sequence[float]) -> str:
    if not values:
        return ""
    mean = f"{statistics.fmean(values):.4g}"
    return mean if len(values) == 1 else f"{mean} <small>{min(values):.4g} to {max(values):.4g}</small>"


def _caption(all_series: Sequence[Series], last: int) -> str:
    runs = [run for one in all_series for run in one.runs]
    told = []
    if longer := [f"{run.name} (step {run.last_step})" for run in runs if run.last_step > last]:
        told.append(f"The table compares at step {last}, the last that all runs have. Longer: {', '.join(longer)}.")
    if (seeds := max(len(one.runs) for one in all_series)) > 1:
        told.append(
            f"Lines are means over up to {seeds} seeds, at the steps that all of them have, and bands reach from the "
            "lowest to the highest, as do the small figures in the table. Longer runs continue as a thin line."
        )
    told.append("Click a metric for its definition.")
    return f"<p>{html.escape(' '.join(told))}</p>"


def _figures(all_series: Sequence[Series], curves: Sequence[Curve]) -> str:
    return "\n".join(_figure(picture, curve) for curve in curves if (picture := svg(all_series, curve)))


def _figure(picture: str, curve: Curve) -> str:
    key, name, _ = curve
    label = html.escape(name)
    picture = picture.replace("<svg", f'<svg role="img" aria-label="{label} over steps"', 1)
    caption = f"{_linked(key, name)} <small>{html.escape(key)}</small>"
    return f'<figure class="curve"><figcaption>{caption}</figcaption>{picture}</figure>'


def _linked(key: str, name: str) -> str:
    """The name, with the metric's description as a tooltip and in the glossary below."""
    entry = describe(key)
    label = html.escape(name)
    return f'<a href="#{_anchor(key)}" title="{html.escape(entry.sentence)}">{label}</a>' if entry else label


def _anchor(key: str) -> str:
    return html.escape(f"metric-{key}".replace(" ", "_"))


def _glossary(runs: Sequence[Run]) -> str:
    """Every metric that the runs have, by name."""
    keys = {key for run in runs for row in (*run.metrics, *run.evaluations) for key in row} - {"step", "time"}
    rows = []
    for key in sorted(keys):
        entry = describe(key)
        told = entry.sentence if entry else "From the reward function, service or agent (extra_logs)."
        rows.append(f'<dt id="{_anchor(key)}"><code>{html.escape(key)}</code></dt><dd>{html.escape(told)}</dd>')
    return f"<dl>{''.join(rows)}</dl>"


def _settings(all_series: Sequence[Series]) -> str:
    """In what the series differ, what differs from the defaults, and, folded, all flags of each."""
    known = [one for one in all_series if one.runs[0].settings]
    if not known:
        return "<p>These runs have no run.json: an earlier version made them.</p>"
    names = sorted({name for one in known for name in one.runs[0].settings if name not in OWN})
    rows = {name: [_setting(one.runs[0].settings.get(name)) for one in known] for name in names}
    head = [html.escape(one.name) for one in known]
    told = []
    if len(known) > 1:
        different = [(html.escape(name), cells) for name, cells in rows.items() if len(set(cells)) > 1]
        same = "<p>The series have the same settings.</p>"
        told.append("<h3>In what the runs differ</h3>" + (table(head, different) if different else same))
    defaults = {name: value for one in known for name, value in (one.runs[0].defaults or {}).items()}
    if any(one.runs[0].defaults is not None for one in known):
        changed = [
            (html.escape(name), [*rows[name], f"<small>{_setting(defaults[name]) or 'none'}</small>"])
            for name in sorted(defaults)
            if name in rows
        ]
        told.append("<h3>What differs from the defaults of OpenRLHF and of this plugin</h3>")
        told.append(table([*head, "default"], changed))
    everything = table(head, [(html.escape(name), cells) for name, cells in rows.items()])
    return f"{''.join(told)}<details><summary>All flags</summary>{everything}</details>"


def _setting(value: Any) -> str:
    if isinstance(value, list):
        value = " ".join(map(str, value))
    return html.escape("" if value is None else str(value))


def _environment(runs: Sequence[Run]) -> str:
    known = [run for run in runs if run.environment]
    names = list(dict.fromkeys(name for run in known for name in run.environment))
    rows = []
    for name in names:
        values = dict.fromkeys(told for run in known if (told := _setting(run.environment.get(name))))
        rows.append((html.escape(name), [" / ".join(values) or "none"]))
    return table([""], rows) if rows else "<p>Not recorded.</p>"
