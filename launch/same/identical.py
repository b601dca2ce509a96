"""Whether two runs are the same to the last bit, and if not, where they part: the first step, metric and response.

Numbers are equal or they are not; NaN equals NaN. Times and counts of requests are left out.
"""

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

VARYING = ("timing/", "reward/wait_", "shaping/seconds", "guide/wait_seconds")
"""Beginnings of metrics that depend on the clock; so do the counts of requests, ``reward/..._total``."""
FIELDS = ("prompt", "label", "guide", "tokens", "entropy", "correct", "shaped_reward", "advantage")
"""Of a saved response, in the order in which training makes them: what differs first is named first."""
MOST_CHARACTERS = 60
"""Of a value in a sentence."""


@dataclass
class Comparison:
    """Two runs over the steps that both have."""

    steps: int
    """Those that both have."""
    responses: int
    """Saved responses that were compared."""
    metrics: int
    """Metrics of each step that were compared."""
    only: tuple[list[str], list[str]]
    """Metrics that one run alone logs."""
    faults: list[str] = field(default_factory=list)
    """Where they part, in sentences; empty if they do not."""


def compare(one: Path, other: Path) -> Comparison:
    """Compare the metrics.jsonl, evaluations.jsonl and rollouts.jsonl of two folders."""
    mine, theirs = _metrics(one), _metrics(other)
    names, others = ({name: None for row in by_step.values() for name in row} for by_step in (mine, theirs))
    shared, steps = [name for name in names if name in others], sorted(mine.keys() & theirs.keys())
    faults, until = [], steps[-1] if steps else 0
    for step in steps:
        parted = [name for name in shared if not _equal(mine[step].get(name), theirs[step].get(name))]
        if parted:
            values = f"{_shown(mine[step].get(parted[0]))} against {_shown(theirs[step].get(parted[0]))}"
            count = f"{len(parted)} of {len(shared)} metrics of this step differ"
            faults.append(f"They part in step {step}: {parted[0]} is {values}; {count}.")
            until = step
            break
    pairs = itertools.zip_longest(_responses(one, until), _responses(other, until))
    count = 0
    for line, its in pairs:
        count += 1
        if fault := _difference(line, its):
            faults.append(f"The first response that differs: {fault}.")
            break
    only = [name for name in names if name not in others], [name for name in others if name not in names]
    return Comparison(len(steps), count, len(shared), only, faults)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    if path.is_file():
        with path.open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def _metrics(folder: Path) -> dict[int, dict[str, Any]]:
    """The metrics that repeat, by step, with those of an evaluation after it."""
    by_step: dict[int, dict[str, Any]] = {}
    for row in itertools.chain(_lines(folder / "metrics.jsonl"), _lines(folder / "evaluations.jsonl")):
        repeating = {name: value for name, value in row.items() if name not in ("step", "time") and _repeats(name)}
        by_step.setdefault(row["step"], {}).update(repeating)
    return by_step


def _repeats(name: str) -> bool:
    return not name.startswith(VARYING) and not (name.startswith("reward/") and name.endswith("_total"))


def _responses(folder: Path, until: int) -> Iterator[dict[str, Any]]:
    return (line for line in _lines(folder / "rollouts.jsonl") if line["step"] <= until)


def _difference(one: dict[str, Any] | None, other: dict[str, Any] | None) -> str | None:
    """What differs first in two lines, in words; None if nothing does."""
    if one is None or other is None:
        return "one run saved more"
    place = f"step {one['step']}, group {one['group']}"
    if (one["step"], one["group"]) != (other["step"], other["group"]):
        return f"{place}, where the other has step {other['step']}, group {other['group']}"
    for name in FIELDS:
        value, its = one.get(name), other.get(name)
        if isinstance(value, list) and isinstance(its, list):
            if (token := _first(value, its)) is not None:
                shown = [_shown(listed[token]) if token < len(listed) else "none" for listed in (value, its)]
                return f"{place}, {name}, token {token + 1}: {shown[0]} against {shown[1]}"
        elif not _equal(value, its):
            return f"{place}, {name}: {_shown(value)} against {_shown(its)}"
    return None


def _first(one: Sequence[Any], other: Sequence[Any]) -> int | None:
    """The first place in which two lists differ."""
    places = (place for place, pair in enumerate(zip(one, other, strict=False)) if not _equal(*pair))
    return next(places, None if len(one) == len(other) else min(len(one), len(other)))


def _equal(one: Any, other: Any) -> bool:
    return bool(one == other) or (one != one and other != other)


def _shown(value: Any) -> str:
    """A number with all its digits, a text in quotes and not too long, null as in the files."""
    text = "null" if value is None else repr(value)
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…{text[-1]}"
