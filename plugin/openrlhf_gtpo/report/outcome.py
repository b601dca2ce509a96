"""The outcome of runs: whether each got better by its evaluations before and after it, and whether they differ from
each other after it."""

import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from openrlhf_gtpo.algorithms.pass_at_k import bootstrap
from openrlhf_gtpo.report.run import Run, Series

__all__ = ["Change", "Figure", "changes", "comparison", "verdict"]

REWARD_STEPS = 10
"""Without evaluations, the mean reward of this many first steps is compared with that of the last."""

JUDGED = "pass@1"


@dataclass(frozen=True)
class Figure:
    """A mean over prompts and its 95 % interval, if the evaluation has one."""

    mean: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Change:
    """A figure of one benchmark before a run and after it."""

    benchmark: str
    name: str
    before: Figure
    after: Figure
    when: tuple[str, str]
    """Names of the two: before and after, or the steps of the evaluations during training."""

    @property
    def word(self) -> str:
        """``better`` or ``worse`` if the intervals do not overlap, else ``no clear change``. Without intervals
        ``higher``, ``lower`` or ``the same``."""
        before, after = self.before, self.after
        if before.low is None or before.high is None or after.low is None or after.high is None:
            return "higher" if after.mean > before.mean else "lower" if after.mean < before.mean else "the same"
        return "better" if after.low > before.high else "worse" if after.high < before.low else "no clear change"


@dataclass(frozen=True)
class _Ended:
    """Pass@1 of one run after training; with the number of prompts, and each one's, where the evaluation has them."""

    figure: Figure
    prompts: int | None = None
    by_prompt: Mapping[int, float] = field(default_factory=dict)


def changes(runs: Sequence[Run]) -> list[Change]:
    """Every figure that both evaluations of a run have, run by run.

    The evaluations are ``before/eval.json`` and ``after/eval.json`` if runs have both. Otherwise they are the first
    and the last during training, among the steps at which all runs evaluated. Figures over different numbers of
    prompts are left out.
    """
    if measured := [run for run in runs if run.before and run.after]:
        return [change for run in measured for change in _before_and_after(run)]
    by_step = [rows for run in runs if (rows := {row["step"]: row for row in run.evaluations})]
    steps = set.intersection(*map(set, by_step)) if by_step else set()
    if len(steps) < 2:
        return []
    first, last = min(steps), max(steps)
    return [change for rows in by_step for change in _in_training(rows[first], rows[last])]


def _before_and_after(run: Run) -> Iterator[Change]:
    for name, figures in run.before.items():
        after = run.after.get(name, {})
        if figures.get("prompts") == after.get("prompts"):
            yield from _pairs(name, _measured(figures), _measured(after), ("before", "after"))


def _in_training(first: Mapping[str, Any], last: Mapping[str, Any]) -> Iterator[Change]:
    after = _during_training(last)
    for name, figures in _during_training(first).items():
        yield from _pairs(name, figures, after.get(name, {}), (f"step {first['step']}", f"step {last['step']}"))


def _pairs(
    benchmark: str, before: Mapping[str, Figure], after: Mapping[str, Figure], when: tuple[str, str]
) -> Iterator[Change]:
    for name in before:
        if name in after:
            yield Change(benchmark, name, before[name], after[name], when)


def _measured(figures: Mapping[str, Any]) -> dict[str, Figure]:
    """Pass@k, entropy and length of one benchmark in eval.json."""
    return {
        name: Figure(value["mean"], value.get("low"), value.get("high"))
        for name, value in figures.items()
        if isinstance(value, dict)
        and value.get("mean") is not None
        and (name.startswith("pass@") or name in ("entropy_token_mean", "response_length"))
    }


def _during_training(row: Mapping[str, Any]) -> dict[str, dict[str, Figure]]:
    """The figures of one line of evaluations.jsonl, by benchmark."""
    figures: dict[str, dict[str, Figure]] = {}
    matches = [match for key in row if (match := re.fullmatch(r"eval_(.+)_pass(\d+)", key)) and row[key] is not None]
    for match in sorted(matches, key=lambda match: int(match[2])):
        ends = (row.get(f"{match[0]}_{end}") for end in ("low", "high"))
        figures.setdefault(match[1], {})[f"pass@{match[2]}"] = Figure(row[match[0]], *ends)
    return figures


def verdict(series: Series) -> str:
    """One line: whether Pass@1 changed by more than the noise over prompts, on each benchmark.

    Without evaluations it gives the change of the reward in training, and says how to evaluate.
    """
    by_benchmark: dict[str, list[Change]] = {}
    for change in changes(series.runs):
        if change.name == JUDGED:
            by_benchmark.setdefault(change.benchmark, []).append(change)
    if by_benchmark:
        return "; ".join(_judged(name, its) for name, its in by_benchmark.items()) + "."
    if any(run.before and run.after for run in series.runs):
        return "Not comparable: the evaluations before and after share no benchmark with the same number of prompts."
    return _reward_in_training(series)


def _judged(benchmark: str, changed: Sequence[Change]) -> str:
    before, after = (statistics.fmean(getattr(one, end).mean for one in changed) for end in ("before", "after"))
    words = [one.word for one in changed]
    told = ", ".join(
        word if len(changed) == 1 else f"{word} in {words.count(word)} of {len(changed)} runs"
        for word in dict.fromkeys(words)
    )
    why = {
        "better": ", the 95 % intervals lie apart",
        "worse": ", the 95 % intervals lie apart",
        "no clear change": ", the 95 % intervals overlap",
    }.get(words[0] if len(set(words)) == 1 else "", "")
    first, last = changed[0].when
    return (
        f"{told[0].upper()}{told[1:]} on {benchmark}: {JUDGED} {before:.3f} {_at(first)}, {after:.3f} {_at(last)}{why}"
    )


def _at(when: str) -> str:
    return f"at {when}" if when.startswith("step") else when


def _reward_in_training(series: Series) -> str:
    rewards = [[value for _, value in run.points("rollout/reward_mean")] for run in series.runs]
    told = "Not evaluated"
    if rewards := [curve for curve in rewards if len(curve) > 1]:
        count = min(REWARD_STEPS, *(len(curve) // 2 for curve in rewards))
        steps = f"{count} steps" if count > 1 else "step"
        first, last = (
            statistics.fmean(statistics.fmean(curve[part]) for curve in rewards)
            for part in (slice(count), slice(-count, None))
        )
        told += f": the reward in training was {first:.3f} in the first {steps} and {last:.3f} in the last"
    return (
        f"{told}. For a verdict: openrlhf-gtpo eval of the model before and after, with --out RUN/before and "
        "--out RUN/after."
    )


def comparison(first: Series, other: Series) -> list[str]:
    """A sentence for each benchmark that both were evaluated on after training: whether their Pass@1 differs.

    The evaluations are ``after/eval.json`` if runs have it. Otherwise they are the last during training, among the
    steps at which all runs evaluated. Where each has its results by prompt (``after/eval.jsonl``), single runs are
    compared prompt by prompt; the same benchmark and the same numbers count as the same prompts. Intervals over
    prompts do not hold the noise of the seed, so a difference of single runs is never claimed.
    """
    one, two = _at_the_end(first.runs, other.runs), _at_the_end(other.runs, first.runs)
    return [
        f"{other.name} against {first.name} on {benchmark}: {_apart(first.name, one[benchmark], other.name, ended)}"
        for benchmark, ended in two.items()
        if benchmark in one
    ]


def _at_the_end(runs: Sequence[Run], beside: Sequence[Run]) -> dict[str, list[_Ended]]:
    """Pass@1 of each run by benchmark, at an end that the runs ``beside`` have too."""
    ended: dict[str, list[_Ended]] = {}
    everyone = [*runs, *beside]
    if any(run.after for run in everyone):
        for run in runs:
            for benchmark, figures in run.after.items():
                if figure := _measured(figures).get(JUDGED):
                    ended.setdefault(benchmark, []).append(
                        _Ended(figure, figures.get("prompts"), run.correct.get(benchmark, {}))
                    )
        return ended
    by_run = [{row["step"]: row for row in run.evaluations} for run in everyone if run.evaluations]
    steps = set.intersection(*map(set, by_run)) if by_run else set()
    for run in runs:
        for row in run.evaluations:
            if row["step"] == max(steps, default=None):
                for benchmark, passes in _during_training(row).items():
                    if figure := passes.get(JUDGED):
                        ended.setdefault(benchmark, []).append(_Ended(figure))
    return ended


def _apart(first: str, one: Sequence[_Ended], other: str, two: Sequence[_Ended]) -> str:
    """The two means, their difference and what can be said of it."""
    if len(counts := dict.fromkeys(ended.prompts for ended in (*two, *one))) > 1:
        return f"not comparable, they were evaluated on {' and '.join(map(str, counts))} prompts."
    means, others = ([ended.figure.mean for ended in runs] for runs in (one, two))
    mean, its = statistics.fmean(means), statistics.fmean(others)
    told = f"{JUDGED} {its:.3f} against {mean:.3f}, {its - mean:+.3f}"
    if len(means) == len(others) == 1:
        return told + _single(one[0], two[0])
    told += "; "
    if max(means) < min(others):
        side = "above"
    elif min(means) > max(others):
        side = "below"
    else:
        return f"{told}the seeds of the two overlap, so no difference can be claimed."
    seeds = f"{len(others)} and {len(means)} seeds"
    return f"{told}of {seeds}, every one of {other} lies {side} every one of {first}."


def _single(first: _Ended, other: _Ended) -> str:
    if len(first.by_prompt) == first.prompts and first.by_prompt.keys() == other.by_prompt.keys():
        gap = bootstrap([other.by_prompt[prompt] - share for prompt, share in first.by_prompt.items()])
        told = f" (prompt by prompt, 95 % interval {gap.low:+.3f} to {gap.high:+.3f}); "
        if gap.low > 0 or gap.high < 0:
            return told + "0 lies outside, but there is one seed of each, so it may be the seed."
        return told + "0 lies inside and there is one seed of each, so no difference can be claimed."
    one, two = first.figure, other.figure
    if one.low is None or one.high is None or two.low is None or two.high is None:
        return "; there are no intervals and one seed of each, so no difference can be claimed."
    if one.high < two.low or two.high < one.low:
        return "; the 95 % intervals over prompts lie apart, but there is one seed of each, so it may be the seed."
    return "; the 95 % intervals overlap and there is one seed of each, so no difference can be claimed."
