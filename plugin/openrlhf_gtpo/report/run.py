"""What a training run left in its folder."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openrlhf_gtpo.errors import SettingsError

__all__ = ["Run", "read"]


@dataclass(frozen=True)
class Run:
    """A run's metrics and, where it saved some, its rollouts."""

    name: str
    metrics: list[dict[str, Any]]
    """One object a step, in order."""
    rollouts: list[dict[str, Any]]
    """One object a response; see ``--shaping.save_rollouts``."""


def read(folder: Path) -> Run:
    """Read ``metrics.jsonl`` and, if it is there, ``rollouts.jsonl``, in the folder or in one named model below it.

    Raises:
        SettingsError: there are no metrics, or a line is not JSON (a last line that was cut off is left out).
    """
    places = [place for place in (folder, folder / "model") if (place / "metrics.jsonl").is_file()]
    if not places:
        raise SettingsError(f"{folder} is no run: it has no metrics.jsonl.")
    metrics = _lines(places[0] / "metrics.jsonl")
    if not metrics:
        raise SettingsError(f"{places[0] / 'metrics.jsonl'} is empty: the run has made no step yet.")
    rollouts = places[0] / "rollouts.jsonl"
    return Run(folder.resolve().name, metrics, _lines(rollouts) if rollouts.is_file() else [])


def _lines(path: Path) -> list[dict[str, Any]]:
    found = []
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        try:
            found.append(json.loads(line))
        except ValueError:
            if number < len(lines):  # a run that is still going on may be writing the last one
                raise SettingsError(f"{path}, line {number}, is not JSON: mend or remove it.") from None
    return found
