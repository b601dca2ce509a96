"""openrlhf-gtpo report RUN...: the results of one or several runs, their curves, the tokens of the first, and in what
their settings differ, as one HTML file that needs no other file and no network."""

import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from statistics import fmean
from typing import Any

from openrlhf_gtpo.errors import SettingsError
from openrlhf_gtpo.flags import Parser
from openrlhf_gtpo.report.curves import CURVES, INK, MAIN, picture
from openrlhf_gtpo.report.run import Run, read
from openrlhf_gtpo.report.tokens import views


def main(argv: Sequence[str]) -> int:
    """Write the page, and print where it is.

    Raises:
        SettingsError: a folder is no run, or the page cannot be written.
    """
    parser = Parser(prog="openrlhf-gtpo report", description=__doc__)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="folder with metrics.jsonl")
    parser.add_argument("--out", type=Path, help="the file (report.html in the first run's folder)")
    args = parser.parse_args(argv)
    path = args.out or args.runs[0] / "report.html"
    text = page([read(folder) for folder in args.runs])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror}.") from None
    print(path)
    return 0


def page(runs: Sequence[Run]) -> str:
    """The document."""
    import jinja2

    folder = files("openrlhf_gtpo.report")
    groups, first = views(runs[0].groups())
    # In a script element only "</" could end it early.
    data = json.dumps({"run": runs[0].name, "groups": groups, "first": first}).replace("</", "<\\/")
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["three_digits"] = three_digits
    return environment.from_string((folder / "page.html").read_text(encoding="utf-8")).render(
        title=", ".join(f"{run.name}: {run.algorithm}" if run.algorithm else run.name for run in runs),
        runs=runs,
        results=results(runs),
        curves=curves(runs, [*CURVES][:MAIN]),
        more_curves=curves(runs, [*CURVES][MAIN:]),
        evaluations=evaluations(runs),
        differences=differences(runs),
        data=data,
        style=(folder / "page.css").read_text(encoding="utf-8"),
        script=(folder / "page.js").read_text(encoding="utf-8"),
    )


def results(runs: Sequence[Run]) -> list[tuple[str, list[tuple[Any, Any] | str]]]:
    """What a reader looks for first: Pass@1 before and after where a run was evaluated, the share of correct responses
    in training, and in how many groups entropy had anything to distribute."""
    rows: list[tuple[str, list[Any]]] = [row for row in evaluations(runs) if row[0].startswith("pass@1 ")]
    for key, name, figure in (
        ("rollout/pass_rate", "correct in training, first and last tenth of the steps", _ends),
        ("groups/shaped_share", "mixed groups in which entropy distributes anything", _mean),
    ):
        columns = [[value for _, value in run.points(key)] for run in runs]
        if any(columns):
            rows.append((name, [figure(values) if values else "" for values in columns]))
    return [*rows, ("steps", [str(run.metrics[-1]["step"]) for run in runs])]


def _ends(values: Sequence[float]) -> str:
    tenth = max(1, len(values) // 10)
    return f"{_mean(values[:tenth])} → {_mean(values[-tenth:])}"


def _mean(values: Sequence[float]) -> str:
    return three_digits(fmean(values))


def curves(runs: Sequence[Run], keys: Sequence[str]) -> list[str]:
    """A drawing of each of these metrics that a run has: the page lays them out as wide as the screen allows."""
    shown = [key for key in keys if any(run.points(key) for run in runs)]
    drawn = [picture(runs, curves={key: CURVES[key]}).decode() for key in shown]
    return [svg[svg.index("<svg") :].replace(INK, "currentColor") for svg in drawn]  # light or dark as the page is


def three_digits(value: float) -> str:
    """A figure with three digits, and no more than three places."""
    whole = len(str(int(abs(value)))) if abs(value) >= 1 else 0
    return f"{value:.{max(0, 3 - whole)}f}"


def evaluations(runs: Sequence[Run]) -> list[tuple[str, list[tuple[Any, Any]]]]:
    """Name of a figure -> for each run its value before and after, each with its interval, or None."""
    names = {(b, f): None for run in runs for end in (run.before, run.after) for b in end for f in end[b]}
    found = []
    for benchmark, figure in names:
        cells = [tuple(end.get(benchmark, {}).get(figure) for end in (run.before, run.after)) for run in runs]
        if any(isinstance(value, dict) for cell in cells for value in cell):
            found.append((f"{figure} on {benchmark}", cells))
    return found


def differences(runs: Sequence[Run]) -> dict[str, list[str]]:
    """The settings in which runs differ -> their values."""
    names = sorted({name for run in runs for name in run.settings})
    rows = {name: [str(run.settings.get(name)) for run in runs] for name in names}
    return {name: values for name, values in rows.items() if len(set(values)) > 1}
