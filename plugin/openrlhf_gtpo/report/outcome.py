"""The outcome of runs: whether each got better by its evaluations before and after it, and whether they differ from
each other after it."""

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from openrlhf_gtpo.algorithms.pass_at_k import bootstrap
from openrlhf_gtpo.report.run import Run, Series

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
class _Evaluation:
    """A benchmark's figures at one time; with the number of prompts, and Pass@1 of each, where there are some."""

    figures: Mapping[str, Figure]
    prompts: int | None = None
    by_prompt: Mapping[int, float] = field(default_factory=dict)

    @property
    def judged(self) -> float:
        return self.figures[JUDGED].mean


def changes(runs: Sequence[Run]) -> list[Change]:
    """Every figure that both evaluations of a run have, run by run.

    The evaluations are ``before/eval.json`` and ``after/eval.json`` if runs have both. Otherwise they are the first
    and the last during training, among the steps at which all runs evaluated. Figures over different numbers of
    prompts are left out.
    """
    by_step = _during_training(runs)
    steps = _shared(by_step)
    when = ("before", "after")
    pairs = [(_of_a_file(run.before), _of_a_file(run.after)) for run in runs if run.before and run.after]
    if not pairs and len(steps) > 1:
        when = (f"step {steps[0]}", f"step {steps[-1]}")
        pairs = [(_of_a_step(rows[steps[0]]), _of_a_step(rows[steps[-1]])) for rows in by_step]
    return [
        Change(benchmark, name, figure, after[benchmark].figures[name], when)
        for before, after in pairs
        for benchmark, its in before.items()
        if benchmark in after and its.prompts == after[benchmark].prompts
        for name, figure in its.figures.items()
        if name in after[benchmark].figures
    ]


def _during_training(runs: Sequence[Run]) -> list[dict[int, Mapping[str, Any]]]:
    """The lines of evaluations.jsonl by step, of each run that has some."""
    return [{row["step"]: row for row in run.evaluations} for run in runs if run.evaluations]


def _shared(by_step: Sequence[Mapping[int, Any]]) -> list[int]:
    """The steps at which all evaluated."""
    return sorted(set.intersection(*map(set, by_step))) if by_step else []


def _of_a_file(benchmarks: Mapping[str, Any], correct: Mapping[str, Any] | None = None) -> dict[str, _Evaluation]:
    """Pass@k, entropy and length of each benchmark in eval.json; ``correct`` as `Run.correct`."""
    evaluations = {}
    for benchmark, figures in benchmarks.items():
        means = {
            name: Figure(value["mean"], value.get("low"), value.get("high"))
            for name, value in figures.items()
            if isinstance(value, dict)
            and value.get("mean") is not None
            and (name.startswith("pass@") or name in ("entropy_token_mean", "response_length"))
        }
        evaluations[benchmark] = _Evaluation(means, figures.get("prompts"), (correct or {}).get(benchmark, {}))
    return evaluations


def _of_a_step(row: Mapping[str, Any]) -> dict[str, _Evaluation]:
    """Pass@k of each benchmark in a line of evaluations.jsonl."""
    figures: dict[str, dict[str, Figure]] = {}
    matches = [match for key in row if (match := re.fullmatch(r"eval_(.+)_pass(\d+)", key)) and row[key] is not None]
    for match in sorted(matches, key=lambda match: int(match[2])):
        ends = (row.get(f"{match[0]}_{end}") for end in ("low", "high"))
        figures.setdefault(match[1], {})[f"pass@{match[2]}"] = Figure(row[match[0]], *ends)
    return {benchmark: _Evaluation(its) for benchmark, its in figures.items()}


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


def _at_the_end(runs: Sequence[Run], beside: Sequence[Run]) -> dict[str, list[_Evaluation]]:
    """Each run's evaluation with Pass@1 by benchmark, at an end that the runs ``beside`` have too."""
    everyone = [*runs, *beside]
    if any(run.after for run in everyone):
        evaluations = [_of_a_file(run.after, run.correct) for run in runs]
    else:
        steps = _shared(_during_training(everyone))
        evaluations = [_of_a_step(rows[steps[-1]]) for rows in _during_training(runs) if steps]
    ended: dict[str, list[_Evaluation]] = {}
    for benchmarks in evaluations:
        for benchmark, evaluation in benchmarks.items():
            if JUDGED in evaluation.figures:
                ended.setdefault(benchmark, []).append(evaluation)
    return ended


def _apart(first: str, one: Sequence[_Evaluation], other: str, two: Sequence[_Evaluation]) -> str:
    """The two means, their difference and what can be said of it."""
    if len(counts := dict.fromkeys(ended.prompts for ended in (*two, *one))) > 1:
        return f"not comparable, they were evaluated on {' and '.join(map(str, counts))} prompts."
    means, others = ([ended.judged for ended in runs] for runs in (one, two))
    mean, its = statistics.fmean(means), statistics.fmean(others)
    told = f"{JUDGED} {its:.3f} against {mean:.3f}, {its - mean:+.3f}"
    if len(means) == len(others) == 1:
        return told + _single(one[0], two[0])
    if min(others) <= max(means) and min(means) <= max(others):
        return f"{told}; the seeds of the two overlap, so no difference can be claimed."
    side = "above" if min(others) > max(means) else "below"
    seeds = f"{len(others)} and {len(means)} seeds"
    return f"{told}; of {seeds}, every one of {other} lies {side} every one of {first}."


def _single(first: _Evaluation, other: _Evaluation) -> str:
    if len(first.by_prompt) == first.prompts and first.by_prompt.keys() == other.by_prompt.keys():
        gap = bootstrap([other.by_prompt[prompt] - share for prompt, share in first.by_prompt.items()])
        told = f" (prompt by prompt, 95 % interval {gap.low:+.3f} to {gap.high:+.3f}); "
        if gap.low > 0 or gap.high < 0:
            return told + "0 lies outside, but there is one seed of each, so it may be the seed."
        return told + "0 lies inside and there is one seed of each, so no difference can be claimed."
    one, two = first.figures[JUDGED], other.figures[JUDGED]
    if one.low is None or one.high is None or two.low is None or two.high is None:
        return "; there are no intervals and one seed of each, so no difference can be claimed."
    if one.high < two.low or two.high < one.low:
        return "; the 95 % intervals over prompts lie apart, but there is one seed of each, so it may be the seed."
    return "; the 95 % intervals overlap and there is one seed of each, so no difference can be claimed."
