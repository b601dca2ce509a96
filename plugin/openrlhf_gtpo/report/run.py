"""What a training run left in its folder."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from math_reward.nearest import beside
from openrlhf_gtpo.data.sources import DataUnusable, lines
from openrlhf_gtpo.errors import SettingsError
from openrlhf_gtpo.registry import label_of

KEYS = ("step", "group", "prompt", "label", "correct", "tokens", "entropy", "shaped_reward", "advantage")
"""What a line of rollouts.jsonl has."""


@dataclass(frozen=True)
class Run:
    """A run's metrics and, where there are some, its evaluations, rollouts and settings."""

    name: str
    metrics: list[dict[str, Any]]
    """One object a step, in order."""
    rollouts: Path | None = None
    """The file of the groups that were saved, if any; see ``--shaping.save_rollouts``."""
    evaluations: list[dict[str, Any]] = field(default_factory=list)
    """One object for each evaluation during training, in order; see OpenRLHF's ``--eval.*``."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Flag -> value."""
    before: dict[str, Any] = field(default_factory=dict)
    """Figures by benchmark of ``before/eval.json``, an evaluation of the model that the run began with, if any."""
    after: dict[str, Any] = field(default_factory=dict)
    """As before, of the model that came out."""

    @property
    def algorithm(self) -> str:
        """GTPO, GRPO or the name of a function; empty where no record says it."""
        return label_of(self.settings.get("algo.advantage.estimator", ""))

    def points(self, key: str) -> list[tuple[int, float]]:
        """(step, value) of a metric, or of an evaluation's, in order."""
        return [(row["step"], row[key]) for row in (*self.metrics, *self.evaluations) if row.get(key) is not None]

    def groups(self) -> Iterator[list[dict[str, Any]]]:
        """The saved groups, each the list of its responses' lines. The file may be larger than the memory.

        Raises:
            SettingsError: a line is not what a run writes.
        """
        group: list[dict[str, Any]] = []
        for line in _lines(self.rollouts, KEYS) if self.rollouts else ():
            if group and (line["step"], line["group"]) != (group[0]["step"], group[0]["group"]):
                yield group
                group = []
            group.append(line)
        if group:
            yield group


def read(folder: Path) -> Run:
    """Read ``metrics.jsonl`` and what stands beside it, in the folder or in one named model below it.

    Raises:
        SettingsError: there are no metrics, or a file is not what a run or an evaluation writes (a last line that was
            cut off is left out).
    """
    place = _place(folder)
    if place is None:
        is_there = folder.is_dir()
        wrong = f"{folder} is no run: it has no metrics.jsonl" if is_there else f"There is no folder {folder}"
        runs = [str(one) for one in sorted((folder if is_there else folder.parent).glob("*")) if _place(one)]
        here = f"; runs here: {', '.join(runs[:10])}" if runs else ""
        raise SettingsError(f"{wrong}{beside(folder)}{here}.")
    path, rollouts = place / "metrics.jsonl", place / "rollouts.jsonl"
    metrics = list(_lines(path, ("step",)))
    if not metrics:
        raise SettingsError(f"{path} is empty: the run has made no step yet.")
    return Run(
        name=folder.resolve().name,
        metrics=metrics,
        rollouts=rollouts if rollouts.is_file() else None,
        evaluations=list(_lines(place / "evaluations.jsonl", ("step",))),
        settings=_object(place / "run.json").get("settings", {}),
        before=_object(folder / "before" / "eval.json").get("benchmarks", {}),
        after=_object(folder / "after" / "eval.json").get("benchmarks", {}),
    )


def _place(folder: Path) -> Path | None:
    """Where a run's files are; None where there is no run."""
    return next((place for place in (folder, folder / "model") if (place / "metrics.jsonl").is_file()), None)


def _object(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise SettingsError(f"{path} holds no JSON object: fix or remove it.")
    return content


def _lines(path: Path, needed: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """The objects of a file of JSON lines. A last line that is cut off is left out: a run may be writing it."""
    if not path.is_file():
        return
    last = 0
    try:
        for place, row in lines(path):
            last = place.number
            if missing := [key for key in needed if key not in row]:
                raise SettingsError(f"{place}: it has no {missing[0]!r}: fix or remove it.")
            yield row
    except DataUnusable as error:
        rest = path.read_bytes().split(b"\n")
        if len(rest) != last + 1 or not rest[-1]:  # another line than the last, or a whole one
            raise SettingsError(str(error)) from None
