"""Whether two runs are the same to the last bit, and if not, where they part: the first step, metric and response.

Numbers are equal or they are not; NaN equals NaN. Times and counts of requests, which the glossary marks, are left
out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from openrlhf_gtpo.glossary.entries import GLOSSARY, describe
from openrlhf_gtpo.report.rollouts import SavedGroups
from openrlhf_gtpo.report.run import Run

FIELDS = ("prompt", "label", "guide", "tokens", "entropy", "correct", "shaped_reward", "advantage")
"""Of a saved response, in the order in which training makes them: what differs first is named first."""

MOST_NAMES = 8
"""Names in one sentence; of more it says how many."""
MOST_CHARACTERS = 60
"""Of a text in a sentence."""


@dataclass(frozen=True)
class Metric:
    """A metric with two values; None where it is null or missing."""

    name: str
    one: Any
    other: Any


@dataclass(frozen=True)
class Response:
    """A saved response, or a group of them, that differs."""

    group: int
    """Its number in the step."""
    number: int
    """In the group, from 1."""
    field: str
    """One of `FIELDS`; ``responses`` where the group is in one run alone or has another size there."""
    one: Any
    other: Any
    """The values that differ; of tokens and their values the first pair that does. None where a response is
    shorter."""
    token: int | None = None
    """Which token it is, from 1."""
    prompt: str = ""


@dataclass(frozen=True)
class RunComparison:
    """Two runs over the steps that both have."""

    steps: Sequence[int]
    """Those that both have, ascending."""
    step: int | None
    """The first of them in which something differs; None if nothing does."""
    metrics: Sequence[Metric]
    """What differs in that step, in the glossary's order: what the policy does, rewards, updates."""
    response: Response | None
    """What differs first in that step's saved responses."""
    compared: int
    """Metrics of that step, or of the last one, that were compared."""
    groups: int
    """Saved groups that were compared."""
    only: tuple[Sequence[str], Sequence[str]]
    """Metrics that one run never logs, by the run that does; they were not compared."""


def compare(one: Run, other: Run) -> RunComparison:
    """Where two runs part."""
    rows, others = _rows(one), _rows(other)
    mine, theirs = ({name: None for row in by_step.values() for name in row} for by_step in (rows, others))
    shared = sorted((name for name in mine if name in theirs), key=_place)
    steps = sorted(rows.keys() & others.keys())

    def differing(step: int) -> list[Metric]:
        pairs = [Metric(name, rows[step].get(name), others[step].get(name)) for name in shared]
        return [pair for pair in pairs if not _equal(pair.one, pair.other)]

    first = next((step for step in steps if differing(step)), None)
    until = first or max(steps, default=0)
    parted, response, groups = _responses(one.rollouts, other.rollouts, until)
    step = parted or first
    return RunComparison(
        steps,
        step,
        differing(step) if step in steps else [],
        response,
        len(shared),
        groups,
        ([name for name in mine if name not in theirs], [name for name in theirs if name not in mine]),
    )


def _rows(run: Run) -> dict[int, dict[str, Any]]:
    """The metrics that repeat, by step, with those of an evaluation after it."""
    by_step: dict[int, dict[str, Any]] = {row["step"]: {} for row in run.metrics}
    for row in (*run.metrics, *run.evaluations):
        if row["step"] in by_step:
            repeating = {name: row[name] for name in row if name not in ("step", "time") and _repeats(name)}
            by_step[row["step"]] |= repeating
    return by_step


def _place(name: str) -> int:
    """A metric's place in the glossary. A reward's own logs are in no glossary: they come last, and repeat."""
    entry = describe(name)
    return len(GLOSSARY) if entry is None else entry.place


def _repeats(name: str) -> bool:
    entry = describe(name)
    return entry is None or entry.repeats


def _equal(one: Any, other: Any) -> bool:
    return bool(one == other) or (one != one and other != other)


def _responses(
    one: SavedGroups | None, other: SavedGroups | None, until: int
) -> tuple[int | None, Response | None, int]:
    """The first step up to ``until`` in which saved responses differ, what differs, and how many groups were
    compared. Only steps of which both runs saved groups count."""
    if one is None or other is None:
        return None, None, 0
    places, others = ({name: place for place, name in enumerate(saved.names)} for saved in (one, other))
    steps = sorted({step for step, _ in places} & {step for step, _ in others})
    count = 0
    for step in steps:
        if step > until:
            break
        groups = sorted(group for at, group in places.keys() | others.keys() if at == step)
        pairs: list[tuple[int, list[dict[str, Any]], list[dict[str, Any]]]] = []
        for group in groups:
            mine, theirs = places.get((step, group)), others.get((step, group))
            count += 1
            if mine is not None and theirs is not None and one.raw(mine) == other.raw(theirs):
                continue
            pairs.append((group, one[mine] if mine is not None else [], other[theirs] if theirs is not None else []))
        if response := next(_differing(pairs), None):
            return step, response, count
    return None, None, count


def _differing(
    pairs: Sequence[tuple[int, list[dict[str, Any]], list[dict[str, Any]]]],
) -> Iterator[Response]:
    """What differs in groups: by field, then by group and response."""
    for field in FIELDS:
        for group, responses, others in pairs:
            for number, (mine, theirs) in enumerate(zip(responses, others, strict=False), 1):
                value, its = mine.get(field), theirs.get(field)
                if isinstance(value, list) and isinstance(its, list):
                    if (place := _first(value, its)) is not None:
                        one, other = (listed[place] if place < len(listed) else None for listed in (value, its))
                        yield Response(group, number, field, one, other, place + 1, mine["prompt"])
                elif not _equal(value, its):
                    yield Response(group, number, field, value, its, None, mine["prompt"])
    for group, responses, others in pairs:
        if len(responses) != len(others):
            prompt = (responses or others)[0]["prompt"]
            yield Response(group, 0, "responses", len(responses), len(others), None, prompt)


def _first(one: Sequence[Any], other: Sequence[Any]) -> int | None:
    """The first place in which two lists differ."""
    if one == other:
        return None
    places = (place for place, pair in enumerate(zip(one, other, strict=False)) if not _equal(*pair))
    return next(places, None if len(one) == len(other) else min(len(one), len(other)))


def where(comparison: RunComparison, one: Run, other: Run) -> Iterator[str]:
    """Where two runs part, in sentences."""
    names = f"{one.name} and {other.name}"
    if not comparison.steps:
        yield f"{names} have no step in common."
        return
    first, last = comparison.steps[0], comparison.steps[-1]
    begin = "" if first == 1 else f"from step {first} "
    if comparison.step is None:
        saved = f" and {comparison.groups:,} saved groups" if comparison.groups else ""
        yield (
            f"{names} are identical {begin}to step {last}, the last that both have: {comparison.compared} metrics of "
            f"each step{saved}, to the last bit. Times and counts of requests are left out."
        )
    else:
        same = [step for step in comparison.steps if step < comparison.step]
        before = f" They are identical {begin}to step {same[-1]}." if same else ""
        yield f"{names} differ from step {comparison.step} on.{before}"
        if comparison.metrics:
            metric = comparison.metrics[0]
            count = f"{len(comparison.metrics)} of {comparison.compared} metrics of this step differ"
            yield f"First metric: {metric.name}, {_shown(metric.one)} against {_shown(metric.other)}; {count}."
        else:
            yield f"All {comparison.compared} metrics of this step are equal, but saved responses differ."
        yield _response(comparison.response, both=one.rollouts is not None and other.rollouts is not None)
    for run, only in zip((one, other), comparison.only, strict=True):
        if only:
            yield f"Only {run.name} logs {_named(only)}; not compared."


def _response(response: Response | None, both: bool) -> str:
    if response is None:
        if both:
            return "The responses that both saved up to this step are equal."
        return "First response: not known, since not both runs saved responses (--shaping.save_rollouts)."
    prompt = "" if response.field == "prompt" else f" Its prompt: {_shown(response.prompt)}."
    values = f"{_shown(response.one)} against {_shown(response.other)}"
    if response.field == "responses":
        return f"First group: {response.group}, of which {values} responses are saved.{prompt}"
    place = f", token {response.token}" if response.token is not None else ""
    what = "" if response.field == "tokens" else f", {response.field}"
    return f"First response: group {response.group}, response {response.number}{what}{place}: {values}.{prompt}"


def _shown(value: Any) -> str:
    """A number with all its digits, a text in quotes and not too long, null as in the files."""
    text = "null" if value is None else repr(value)
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…{text[-1]}"


def _named(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
