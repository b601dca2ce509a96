"""What a training run left in its folder, and which runs are one experiment with several seeds."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openrlhf_gtpo.data.json_lines import Unreadable, lines_of
from openrlhf_gtpo.errors import SettingsError
from openrlhf_gtpo.report.rollouts import SavedGroups, object_of_line

OWN = (
    "train.seed",
    "ckpt.output_dir",
    "ckpt.path",
    "logger.metrics_path",
    "logger.tensorboard_dir",
    "logger.wandb.run_name",
    "reward.remote_url",
)
"""Settings in which the runs of one series may differ."""


@dataclass(frozen=True)
class Run:
    """A run's metrics and, where there are some, its evaluations, rollouts and record."""

    name: str
    metrics: list[dict[str, Any]]
    """One object a step, in order."""
    rollouts: SavedGroups | None = None
    """The groups that were saved, if any; see ``--shaping.save_rollouts``."""
    evaluations: list[dict[str, Any]] = field(default_factory=list)
    """One object for each evaluation during training, in order; see OpenRLHF's ``--eval.*``."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Flag -> value; empty for a run of an earlier version."""
    environment: dict[str, Any] = field(default_factory=dict)
    defaults: dict[str, Any] | None = None
    """The default of each flag that was set otherwise; None for a run of an earlier version."""
    before: dict[str, Any] = field(default_factory=dict)
    """Figures by benchmark of ``before/eval.json``, an evaluation of the model that the run began with, if any."""
    after: dict[str, Any] = field(default_factory=dict)
    """As before, of the model that came out."""
    correct: dict[str, dict[int, float]] = field(default_factory=dict)
    """Of each prompt of each benchmark, by its number, the share of correct responses of the model that came out:
    from ``after/eval.jsonl``, if it is there."""
    sha256: dict[str, str | None] = field(default_factory=dict)
    """Of what it began with and of its final weights; None where there is no hash. Empty for a run of an earlier
    version."""

    @property
    def last_step(self) -> int:
        """The step of the last line of metrics."""
        return self.metrics[-1]["step"]

    def points(self, key: str) -> list[tuple[int, float]]:
        """(step, value) of a metric, or of an evaluation's, in order."""
        return [(row["step"], row[key]) for row in (*self.metrics, *self.evaluations) if row.get(key) is not None]


@dataclass(frozen=True)
class Series:
    """Runs that differ in nothing but their seed: one curve with a band."""

    name: str
    runs: list[Run]


def read(folder: Path) -> Run:
    """Read ``metrics.jsonl`` and what stands beside it, in the folder or in one named model below it.

    Raises:
        SettingsError: there are no metrics, or a file is not what a run or an evaluation writes (a last line that was
            cut off is left out).
    """
    places = [place for place in (folder, folder / "model") if (place / "metrics.jsonl").is_file()]
    if not places:
        raise SettingsError(f"{folder} is no run: it has no metrics.jsonl.")
    metrics = _lines(places[0] / "metrics.jsonl")
    if not metrics:
        raise SettingsError(f"{places[0] / 'metrics.jsonl'} is empty: the run has made no step yet.")
    record = _object(places[0] / "run.json")
    rollouts = places[0] / "rollouts.jsonl"
    return Run(
        folder.resolve().name,
        metrics,
        SavedGroups(rollouts) if rollouts.is_file() else None,
        _lines(places[0] / "evaluations.jsonl"),
        record.get("settings", {}),
        record.get("environment", {}),
        record.get("defaults"),
        _benchmarks(folder / "before" / "eval.json"),
        _benchmarks(folder / "after" / "eval.json"),
        _correct(folder / "after" / "eval.jsonl"),
        record.get("sha256", {}),
    )


def _object(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise SettingsError(f"{path} is not JSON: fix or remove it.") from None
    if not isinstance(content, dict):
        raise SettingsError(f"{path} holds no JSON object: fix or remove it.")
    return content


def _benchmarks(path: Path) -> dict[str, Any]:
    benchmarks = _object(path).get("benchmarks", {})
    if not isinstance(benchmarks, dict) or not all(isinstance(figures, dict) for figures in benchmarks.values()):
        raise SettingsError(f"{path} is no evaluation: it has no figures by benchmark; fix or remove it.")
    return benchmarks


def _correct(path: Path) -> dict[str, dict[int, float]]:
    answers: dict[str, dict[int, list[bool]]] = {}
    for row in _lines(path, ("benchmark", "prompt", "correct")):
        answers.setdefault(row["benchmark"], {}).setdefault(row["prompt"], []).append(row["correct"])
    return {
        benchmark: {prompt: sum(correct) / len(correct) for prompt, correct in prompts.items()}
        for benchmark, prompts in answers.items()
    }


def _lines(path: Path, needed: Sequence[str] = ("step",)) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    rows = []
    try:
        for line in lines_of(path):
            try:
                rows.append(object_of_line(path, line, needed))
            except SettingsError:
                if line.content.endswith(b"\n"):  # a run that is still going on may be writing the last one
                    raise
    except Unreadable as error:
        raise SettingsError(f"{path} cannot be read: {error}.") from None
    return rows


def series(runs: Sequence[Run]) -> list[Series]:
    """The runs by experiment, in the order of each one's first run.

    Runs with the same settings but for the seed and the places of files are one series, by the name that theirs begin
    with. A run without a record is a series of its own.
    """
    groups: dict[str, list[Run]] = {}
    for number, run in enumerate(runs):
        shared = {name: value for name, value in run.settings.items() if name not in OWN}
        groups.setdefault(json.dumps(shared, sort_keys=True) if shared else str(number), []).append(run)
    return [Series(_name(group), group) for group in groups.values()]


def _name(runs: Sequence[Run]) -> str:
    if len(runs) == 1:
        return runs[0].name
    shared = {re.sub(r"[-_. ]?(seed)?[-_. =]?\d+$", "", run.name) for run in runs}
    return shared.pop() if len(shared) == 1 else f"{runs[0].name} and {len(runs) - 1} more"
