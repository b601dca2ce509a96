"""Whether two runs are the same to the last bit, and where they part: asked by `openrlhf-gtpo report A B`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from openrlhf_gtpo.cli import main
from openrlhf_gtpo.report import identical
from openrlhf_gtpo.report.run import read

from .files import lines, record, response, run

TIMES = {"time": 12.5, "timing/step_total": 3.0, "reward/requests_total": 40.0}


def metrics(folder: Path, rows: list[dict[str, Any]]) -> Path:
    folder.mkdir(exist_ok=True)
    lines(folder / "metrics.jsonl", [{"step": step, **row} for step, row in enumerate(rows, 1)])
    return folder


def told(*folders: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What the command prints before the file's name; the page says the same."""
    capsys.readouterr()
    page = folders[0] / "report.html"
    assert main(["report", *map(str, folders), "--out", str(page)]) == 0
    *sentences, path = capsys.readouterr().out.splitlines()
    assert path == str(page)
    shown = page.read_text()
    for sentence in sentences:
        assert sentence.replace("'", "&#x27;").replace("<", "&lt;").replace(">", "&gt;") in shown
    return sentences


def test_a_run_and_its_copy_are_identical_to_the_last_step_that_both_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = [response(True, ["4", "2"], step=step) for step in (1, 2)]
    a, b = run(tmp_path / "a", saved, steps=3), run(tmp_path / "b", saved, steps=2)
    assert told(a, b, capsys=capsys)[0] == (
        "a and b are identical to step 2, the last that both have: 2 metrics of each step and 2 saved groups, to the "
        "last bit. Times and counts of requests are left out."
    )


def test_the_last_bit_of_one_metric_is_a_difference_and_a_time_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"policy_loss": 0.1 + 0.2, "rollout/pass_rate": 0.5, **TIMES} for _ in range(3)]
    others = [{"policy_loss": 0.1 + 0.2, "rollout/pass_rate": 0.5, "time": 99.0, "timing/step_total": 9.0}] * 2
    a = metrics(tmp_path / "a", rows)
    b = metrics(tmp_path / "b", [*others, {**others[0], "policy_loss": 0.3}])
    assert told(a, b, capsys=capsys)[:3] == [
        "a and b differ from step 3 on. They are identical to step 2.",
        "First metric: policy_loss, 0.30000000000000004 against 0.3; 1 of 2 metrics of this step differ.",
        "First response: not known, since not both runs saved responses (--shaping.save_rollouts).",
    ]


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


def test_a_metric_that_one_step_lacks_is_a_difference_and_one_that_a_version_lacks_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"policy_loss": 1.0, "entropy/wrong_token_mean": 0.5}
    a = metrics(tmp_path / "a", [row, row])
    b = metrics(tmp_path / "b", [{**row, "overlong/punished_share": 0.0}, {"policy_loss": 1.0}])
    assert told(a, b, capsys=capsys)[:4] == [
        "a and b differ from step 2 on. They are identical to step 1.",
        "First metric: entropy/wrong_token_mean, 0.5 against null; 1 of 2 metrics of this step differ.",
        "First response: not known, since not both runs saved responses (--shaping.save_rollouts).",
        "Only b logs overlong/punished_share; not compared.",
    ]


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
    ("changed", "sentence"),
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
        (group(1, GOOD), "First group: 1, of which 2 against 1 responses are saved."),
        ([], "First group: 1, of which 2 against 0 responses are saved."),
    ],
    ids=["token", "length", "entropy", "verdict", "prompt", "size of a group", "group"],
)
def test_the_first_response_that_differs_is_named_with_its_token(
    changed: list[dict[str, Any]], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = group(0, GOOD, BAD)
    a = run(tmp_path / "a", [*first, *group(1, GOOD, BAD), *group(0, GOOD, step=2)])
    b = run(tmp_path / "b", [*first, *changed, *group(0, BAD, step=2)])
    first_step, metrics_say, said, *_ = told(a, b, capsys=capsys)
    assert first_step == "a and b differ from step 1 on."
    assert metrics_say == "All 2 metrics of this step are equal, but saved responses differ."
    assert sentence in said
    assert "'What is 6*7?'" in said, "its prompt"


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


def test_runs_without_a_common_step_and_runs_that_begin_later_are_called_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = run(tmp_path / "a", steps=4)
    late, apart = run(tmp_path / "late", steps=4), run(tmp_path / "apart", steps=4)
    rows = [json.loads(line) for line in (a / "metrics.jsonl").read_text().splitlines()]
    lines(late / "metrics.jsonl", rows[2:])
    lines(apart / "metrics.jsonl", [{**rows[0], "step": 9}])
    assert told(a, late, capsys=capsys)[0].startswith("a and late are identical from step 3 to step 4, the last")
    assert told(a, apart, capsys=capsys)[0] == "a and apart have no step in common."


def with_hashes(folder: Path, hashes: Mapping[str, str | None], **parts: Any) -> Path:
    told = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**told, "sha256": hashes, **parts}))
    return folder


def test_contents_settings_and_environment_are_compared_by_what_run_json_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = {"train.seed": 0, "ckpt.output_dir": "a", "of_one_version": 1, "actor.model_name_or_path": "here"}
    a = record(run(tmp_path / "a"), **mine)
    # Another place of the same policy is no other setting.
    b = record(run(tmp_path / "b"), **{"train.seed": 1, "ckpt.output_dir": "b", "actor.model_name_or_path": "there"})
    shared = {"actor.model_name_or_path": "p", "data.prompt_dataset 2": "d", "guide.model": None}
    with_hashes(a, {**shared, "order_of_prompts": "0", "final_weights": "w"}, not_hashed={"guide.model": "it is gone"})
    with_hashes(b, {**shared, "order_of_prompts": "1"}, environment={"vllm": "0.30.0", "CPU": "new"})
    assert told(a, b, capsys=capsys)[1:] == [
        "The same content: policy, training data 2.",
        "Other content: order of prompts.",
        "Not known: guide (a: it is gone), final weights (b: it has not ended).",
        "Other settings: train.seed (0 against 1).",
        "Other environment: vllm ('0.29.0' against '0.30.0').",
    ]


def test_a_resumption_is_said_with_what_it_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = (record(run(tmp_path / name)) for name in ("a", "b"))
    again = {"started": "2026-11-23 08:00:00 UTC", "settings": {"ckpt.load_enable": True, "actor.adam.lr": 2e-6}}
    with_hashes(b, {}, resumed=[again])
    assert told(a, b, capsys=capsys)[1:] == [
        "Whether policy and data are the same content is not known: a, b recorded no hashes.",
        "The same settings.",
        "The same environment.",
        "b was resumed on 2026-11-23 08:00:00 UTC with --actor.adam.lr 2e-06.",
    ]


def test_of_one_run_and_of_three_nothing_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [run(tmp_path / name) for name in ("a", "b", "c")]
    assert told(folders[0], capsys=capsys) == told(*folders, capsys=capsys) == []
