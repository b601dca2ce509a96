"""The verdict: only what intervals bear out is called better or worse, and what was not measured is not judged."""

import re
from pathlib import Path
from typing import Any

import pytest

from openrlhf_gtpo.report.outcome import Change, Figure, changes, comparison, verdict
from openrlhf_gtpo.report.run import Run, Series, read

from .files import lines, measured, run


def evaluated(folder: Path, before: dict[str, Any], after: dict[str, Any]) -> Run:
    run(folder)
    measured(folder / "before", before)
    measured(folder / "after", after)
    return read(folder)


def figures(mean: float, low: float, high: float, prompts: int = 200) -> dict[str, Any]:
    return {"pass@1": (mean, low, high), "mean@16": (mean, low, high), "prompts": prompts, "n": 16}


@pytest.mark.parametrize(
    ("after", "change", "why"),
    [
        ((0.50, 0.46, 0.55), "Better on math", "apart"),
        ((0.30, 0.25, 0.34), "Worse on math", "apart"),
        ((0.43, 0.39, 0.47), "No clear change", "overlap"),
    ],
)
def test_a_change_is_one_only_where_the_intervals_lie_apart(
    tmp_path: Path, after: tuple[float, float, float], change: str, why: str
) -> None:
    found = evaluated(tmp_path / "a", {"math": figures(0.40, 0.35, 0.45)}, {"math": figures(*after)})
    said = verdict(Series("a", [found]))
    assert said.startswith(change)
    assert re.search(f"0.400 .*{after[0]:.3f} .*{why}", said)


def test_each_benchmark_is_judged_and_only_pass_at_1(tmp_path: Path) -> None:
    before = {"aime": figures(0.1, 0.05, 0.15), "gsm8k": figures(0.5, 0.45, 0.55), "old": figures(0.5, 0.4, 0.6)}
    found = evaluated(tmp_path / "a", before, {"aime": figures(0.3, 0.25, 0.35), "gsm8k": figures(0.5, 0.45, 0.55)})
    first, second = verdict(Series("a", [found])).split("; ")
    assert first.startswith("Better on aime")
    assert second.startswith("No clear change")
    assert "gsm8k" in second
    assert {change.name for change in changes([found])} == {"pass@1"}, "mean@16 is the same figure"


def test_the_seeds_of_a_series_are_counted(tmp_path: Path) -> None:
    start = {"aime": figures(0.4, 0.35, 0.45)}
    runs = [
        evaluated(tmp_path / str(seed), start, {"aime": figures(mean, mean - 0.04, mean + 0.04)})
        for seed, mean in enumerate((0.5, 0.42, 0.58))
    ]
    assert re.search("^Better in 2 of 3 .* 1 of 3 .* 0.400 .* 0.500 ", verdict(Series("a", runs)))


def test_evaluations_over_different_prompts_are_not_compared(tmp_path: Path) -> None:
    found = evaluated(
        tmp_path / "a", {"aime": figures(0.1, 0.0, 0.2, prompts=30)}, {"aime": figures(0.9, 0.8, 1.0, prompts=20)}
    )
    assert changes([found]) == []
    assert verdict(Series("a", [found])).startswith("Not comparable: ")


def test_evaluations_during_training_are_compared_first_and_last(tmp_path: Path) -> None:
    folder = run(tmp_path / "a")
    rows = [
        {"step": s, "eval_m_pass1": s / 100, "eval_m_pass1_low": s / 100 - 0.05, "eval_m_pass1_high": s / 100 + 0.05}
        for s in (10, 20, 30)
    ]
    lines(folder / "evaluations.jsonl", rows)
    (change,) = changes([read(folder)])
    assert (change.before.mean, change.after.mean, change.when) == (0.1, 0.3, ("step 10", "step 30"))
    assert verdict(Series("a", [read(folder)])).startswith("Better on m: ")
    lines(folder / "evaluations.jsonl", rows[:1])
    assert changes([read(folder)]) == [], "one evaluation is no comparison"


def test_seeds_of_different_lengths_are_compared_at_steps_that_all_evaluated_at(tmp_path: Path) -> None:
    runs = []
    for name, steps in (("a", (10, 20, 30)), ("b", (5, 10, 20))):
        folder = run(tmp_path / name)
        lines(folder / "evaluations.jsonl", [{"step": s, "eval_m_pass1": s / 100} for s in steps])
        runs.append(read(folder))
    found = changes(runs)
    assert [(change.before.mean, change.after.mean, change.when) for change in found] == [
        (0.1, 0.2, ("step 10", "step 20"))
    ] * 2
    assert changes([runs[0], read(run(tmp_path / "never"))])[0].when == ("step 10", "step 30"), "of those evaluated"


def test_without_intervals_nothing_is_called_better() -> None:
    assert Change("m", "pass@1", Figure(0.1), Figure(0.9), ("before", "after")).word == "higher"
    assert Change("m", "pass@1", Figure(0.9, 0.8, 1.0), Figure(0.1), ("before", "after")).word == "lower"


def test_what_was_not_evaluated_is_not_judged() -> None:
    metrics = [{"step": s, "rollout/reward_mean": 0.1 if s <= 10 else 0.7} for s in range(1, 21)]
    said = verdict(Series("a", [Run("a", metrics)]))
    assert re.search("^Not evaluated: .* 0.100 .* 10 steps .* 0.700 .*openrlhf-gtpo eval", said)
    assert verdict(Series("a", [Run("a", metrics[:1])])).startswith("Not evaluated. ")


def ended(folder: Path, *means: float, reach: float = 0.05, prompts: int = 200) -> Series:
    """Runs of a series that were evaluated after training alone, with intervals of ``reach`` on either side."""
    runs = []
    for seed, mean in enumerate(means):
        place = run(folder / f"{folder.name}-{seed}")
        measured(place / "after", {"math": figures(mean, mean - reach, mean + reach, prompts)})
        runs.append(read(place))
    return Series(folder.name, runs)


@pytest.mark.parametrize(("reach", "why"), [(0.05, "overlap .* no difference"), (0.01, "apart, but .* one seed")])
def test_single_runs_are_compared_but_no_difference_of_theirs_is_claimed(
    tmp_path: Path, reach: float, why: str
) -> None:
    one, two = ended(tmp_path / "gtpo", 0.632, reach=reach), ended(tmp_path / "grpo", 0.672, reach=reach)
    assert re.search(rf"^grpo against gtpo .* 0.672 against 0.632, \+0.040; .*{why}", *comparison(one, two))
    assert re.search(rf"^gtpo against grpo .* 0.632 against 0.672, -0.040; .*{why}", *comparison(two, one))


@pytest.mark.parametrize(
    ("means", "figures", "claim"),
    [
        ((0.5, 0.7), r"0.600 against 0.400, \+0.200", "2 and 3 seeds, .* above"),
        ((0.1, 0.2), "0.150 against 0.400, -0.250", "2 and 3 seeds, .* below"),
        ((0.44, 0.7), r"0.570 against 0.400, \+0.170", "overlap, .* no difference"),
    ],
)
def test_seeds_are_compared_one_by_one_whatever_the_intervals_over_prompts(
    tmp_path: Path, means: tuple[float, ...], figures: str, claim: str
) -> None:
    one, two = ended(tmp_path / "a", 0.35, 0.40, 0.45), ended(tmp_path / "b", *means)
    (said,) = comparison(one, two)
    assert re.search(f"{figures}; .*{claim}", said)


def by_prompt(folder: Path, name: str, shares: list[float]) -> Series:
    """A run evaluated after training with ten responses to each prompt, and intervals that overlap with all others."""
    ended(folder / name, sum(shares) / len(shares), reach=0.5, prompts=len(shares))
    rows = [
        {"benchmark": "math", "prompt": prompt, "sample": sample, "correct": sample < round(10 * share)}
        for prompt, share in enumerate(shares)
        for sample in range(10)
    ]
    place = folder / name / f"{name}-0"
    lines(place / "after" / "eval.jsonl", rows)
    return Series(name, [read(place)])


def test_single_runs_are_compared_prompt_by_prompt_where_their_results_are_there(tmp_path: Path) -> None:
    """Prompts differ more from each other than runs do on one of them."""
    shares = [0.0, 0.3, 0.5, 0.8] * 10
    base = by_prompt(tmp_path, "a", shares)
    (said,) = comparison(base, by_prompt(tmp_path, "b", [share + 0.1 for share in shares]))
    assert re.search(r"prompt by prompt, .* \+0.100 to \+0.100\); 0 lies outside", said)
    (said,) = comparison(base, by_prompt(tmp_path, "c", [0.5, 0.3, 0.0, 0.8] * 10))
    assert re.search(r"prompt by prompt, .* -\S+ to \+\S+\); 0 lies inside", said)


def test_results_by_prompt_of_other_prompts_are_not_paired(tmp_path: Path) -> None:
    one, two = by_prompt(tmp_path, "a", [0.5, 0.6]), by_prompt(tmp_path, "b", [0.7, 0.8])
    place = tmp_path / "b" / "b-0"
    for rows in (
        [{"benchmark": "math", "prompt": prompt, "correct": True} for prompt in (7, 8)],
        [{"benchmark": "math", "prompt": 0, "correct": True}],
    ):
        lines(place / "after" / "eval.jsonl", rows)
        (said,) = comparison(one, Series("b", [read(place)]))
        assert "prompt by prompt" not in said
    assert "prompt by prompt" in comparison(one, two)[0]


def test_runs_are_compared_only_on_the_benchmark_and_the_prompts_that_both_have(tmp_path: Path) -> None:
    one, two = ended(tmp_path / "a", 0.4, prompts=30), ended(tmp_path / "b", 0.9, prompts=20)
    assert re.search("not comparable, .* 20 and 30 prompts", *comparison(one, two))
    other = run(tmp_path / "c")
    measured(other / "after", {"aime": figures(0.4, 0.3, 0.5)})
    assert comparison(one, Series("c", [read(other)])) == []
    assert comparison(one, Series("d", [read(run(tmp_path / "d"))])) == [], "never evaluated"


def test_runs_evaluated_during_training_are_compared_at_the_last_step_that_both_have(tmp_path: Path) -> None:
    found = []
    for name, steps in (("a", (10, 20, 30)), ("b", (5, 10, 20))):
        folder = run(tmp_path / name)
        gain = 0.1 if name == "b" else 0.0
        lines(folder / "evaluations.jsonl", [{"step": s, "eval_m_pass1": s / 100 + gain} for s in steps])
        found.append(Series(name, [read(folder)]))
    assert re.search(r"0.300 against 0.200, \+0.100; .*no intervals", *comparison(*found))
