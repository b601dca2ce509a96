"""Whether two runs are the same to the last bit, and where they part: what `bash launch/test.sh same` says."""

import json
from pathlib import Path
from typing import Any

import pytest

import identical
from openrlhf_gtpo.report.run import read

from ..plugin.report.files import lines, response, run
from ..refusals import assert_refusal

TIMES = {"time": 12.5, "timing/step_total": 3.0, "reward/requests_total": 40.0}


def metrics(folder: Path, rows: list[dict[str, Any]]) -> Path:
    folder.mkdir(exist_ok=True)
    lines(folder / "metrics.jsonl", [{"step": step, **row} for step, row in enumerate(rows, 1)])
    return folder


def said(one: Path, other: Path) -> list[str]:
    """Sentences on where two runs part."""
    runs = read(one), read(other)
    return list(identical.where(identical.compare(*runs), *runs))


def test_a_run_and_its_copy_are_identical_to_the_last_step_that_both_have(tmp_path: Path) -> None:
    saved = [response(True, ["4", "2"], step=step) for step in (1, 2)]
    a, b = run(tmp_path / "a", saved, steps=3), run(tmp_path / "b", saved, steps=2)
    (sentence,) = said(a, b)
    assert_refusal(sentence, "identical to step 2", "2 metrics", "2 saved groups")


def test_the_last_bit_of_one_metric_is_a_difference_and_a_time_is_none(tmp_path: Path) -> None:
    rows = [{"policy_loss": 0.1 + 0.2, "rollout/pass_rate": 0.5, **TIMES} for _ in range(3)]
    others = [{"policy_loss": 0.1 + 0.2, "rollout/pass_rate": 0.5, "time": 99.0, "timing/step_total": 9.0}] * 2
    a = metrics(tmp_path / "a", rows)
    b = metrics(tmp_path / "b", [*others, {**others[0], "policy_loss": 0.3}])
    step, metric, first = said(a, b)
    assert "differ from step 3" in step
    assert "policy_loss, 0.30000000000000004 against 0.3; 1 of 2" in metric
    assert "--shaping.save_rollouts" in first, "not both saved responses"


def test_what_the_policy_does_is_named_before_what_follows_from_it(tmp_path: Path) -> None:
    one = {"my_own": 1, "actor_grad_norm": 1.0, "entropy/token_mean": 1.0, "rollout/reward_mean": 1.0}
    runs = [metrics(tmp_path / "a", [one]), metrics(tmp_path / "b", [dict.fromkeys(one, 2)])]
    found = identical.compare(*map(read, runs))
    assert [metric.name for metric in found.metrics] == [
        "rollout/reward_mean",
        "entropy/token_mean",
        "actor_grad_norm",
        "my_own",
    ]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("NaN", "NaN", True),
        ("null", "null", True),
        ("NaN", "1.0", False),
        ("null", "0.0", False),
        ("1", "1.0", True),
        ("1e-45", "0.0", False),
    ],
)
def test_nan_equals_nan_and_nothing_else(one: str, other: str, same: bool, tmp_path: Path) -> None:
    runs = []
    for name, value in (("a", one), ("b", other)):
        folder = metrics(tmp_path / name, [{}])
        (folder / "metrics.jsonl").write_text(f'{{"step": 1, "policy_loss": {value}}}\n')
        runs.append(read(folder))
    assert (identical.compare(*runs).step is None) is same


def test_a_metric_that_one_step_lacks_is_a_difference_and_one_that_a_version_lacks_is_said(tmp_path: Path) -> None:
    row = {"policy_loss": 1.0, "entropy/wrong_token_mean": 0.5}
    a = metrics(tmp_path / "a", [row, row])
    b = metrics(tmp_path / "b", [{**row, "overlong/punished_share": 0.0}, {"policy_loss": 1.0}])
    step, metric, _, only = said(a, b)
    assert "differ from step 2" in step
    assert "entropy/wrong_token_mean, 0.5 against null; 1 of 2" in metric
    assert "Only b logs overlong/punished_share" in only


def test_evaluations_during_training_are_compared_with_their_step(tmp_path: Path) -> None:
    folders = [run(tmp_path / name, steps=4) for name in ("a", "b")]
    for folder, share in zip(folders, (0.5, 0.25), strict=True):
        lines(
            folder / "evaluations.jsonl",
            [{"step": 2, "eval_gates_pass1": 0.5}, {"step": 4, "eval_gates_pass1": share}],
        )
    found = identical.compare(*map(read, folders))
    assert found.step == 4
    assert found.metrics == [identical.Metric("eval_gates_pass1", 0.5, 0.25)]


def group(number: int, *responses: dict[str, Any], step: int = 1) -> list[dict[str, Any]]:
    return [{**one, "step": step, "group": number} for one in responses]


GOOD, BAD = response(True, ["6", "*", "7", "42"]), response(False, ["4", "1"])


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        (group(1, GOOD, {**BAD, "tokens": ["4", "3"]}), "group 1, response 2, token 2: '1' against '3'."),
        (group(1, GOOD, {**BAD, "tokens": ["4"]}), "group 1, response 2, token 2: '1' against null."),
        (
            # The advantages of both differ since one has another entropy: that is where it began.
            group(1, {**GOOD, "advantage": [9.0] * 4}, {**BAD, "advantage": [9.0] * 2, "entropy": [0.0, 0.25]}),
            "group 1, response 2, entropy, token 2: 0.5 against 0.25.",
        ),
        (group(1, GOOD, {**BAD, "correct": True}), "group 1, response 2, correct: False against True."),
        (group(1, {**GOOD, "prompt": "7*6?"}, BAD), "group 1, response 1, prompt: 'What is 6*7?' against '7*6?'."),
        (group(1, GOOD), "group: 1, of which 2 against 1"),
        ([], "group: 1, of which 2 against 0"),
    ],
    ids=["token", "length", "entropy", "verdict", "prompt", "size of a group", "group"],
)
def test_the_first_response_that_differs_is_named_with_its_token(
    changed: list[dict[str, Any]], named: str, tmp_path: Path
) -> None:
    first = group(0, GOOD, BAD)
    a = run(tmp_path / "a", [*first, *group(1, GOOD, BAD), *group(0, GOOD, step=2)])
    b = run(tmp_path / "b", [*first, *changed, *group(0, BAD, step=2)])
    step, metrics_say, first, *_ = said(a, b)
    assert "step 1" in step
    assert "All 2 metrics" in metrics_say
    assert named in first
    assert "'What is 6*7?'" in first, "its prompt"


def test_responses_that_are_written_otherwise_are_the_same(tmp_path: Path) -> None:
    a = run(tmp_path / "a", [GOOD])
    b = run(tmp_path / "b")
    (b / "rollouts.jsonl").write_text(json.dumps({**GOOD, "new": 1}, separators=(",", ":")) + "\n")
    found = identical.compare(read(a), read(b))
    assert (found.step, found.groups) == (None, 1)


def test_steps_that_one_run_did_not_save_do_not_count(tmp_path: Path) -> None:
    every = [one for step in (1, 2, 3) for one in group(0, GOOD, step=step)]
    a, b = run(tmp_path / "a", every), run(tmp_path / "b", every[::2])
    found = identical.compare(read(a), read(b))
    assert (found.step, found.groups) == (None, 2)


def test_runs_without_a_common_step_and_runs_that_begin_later_are_called_so(tmp_path: Path) -> None:
    a = run(tmp_path / "a", steps=4)
    late, apart = run(tmp_path / "late", steps=4), run(tmp_path / "apart", steps=4)
    rows = [json.loads(line) for line in (a / "metrics.jsonl").read_text().splitlines()]
    lines(late / "metrics.jsonl", rows[2:])
    lines(apart / "metrics.jsonl", [{**rows[0], "step": 9}])
    assert "identical from step 3 to step 4" in said(a, late)[0]
    assert "no step in common" in said(a, apart)[0]
