"""The study of what M2 owes to its guide: its arms, the order of its runs, and its tables, of records whose answer is
known."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

import designs
import guide_study
import record
import runner
from openrlhf_gtpo.checks.flags import faults, warnings
from openrlhf_gtpo.controller.updates_file import read_updates
from openrlhf_gtpo.settings import Settings
from record import Record

from .test_policies import flags_of, measured, saved

DESIGN = guide_study.DESIGN


def study(out: Path, **changes: Any) -> designs.Study:
    keys = tuple(arm.key for arm in DESIGN.arms)
    return designs.Study(
        DESIGN,
        out,
        keys,
        None,
        steps=changes.pop("steps", DESIGN.steps),
        jobs=changes.pop("jobs", 2),
        learning_rate=DESIGN.learning_rate,
        start=out / "warm_start",
        guide=out / "guide_warm_start",
        final_prompts=DESIGN.final_prompts,
        **changes,
    )


# --- arms


def test_the_arms_differ_in_guide_objective_and_updates_alone(tmp_path: Path) -> None:
    one = study(tmp_path)
    found = {arm.key: flags_of(designs.training(one, designs.Job(arm, 0, 3))) for arm in DESIGN.arms}
    paths = {"ckpt.output_dir", "ckpt.path", "logger.metrics_path"}

    def differing(arm: str, other: str) -> set[str]:
        return {flag for flag in found[arm] if found[arm][flag] != found[other][flag]} - paths

    assert differing("dapo_m2", "dapo") == {"guide.model", "guide.samples", "guide.when"}
    assert differing("supervised", "dapo_m2") == {"guide.objective"}
    assert differing("dapo_m2_updates", "dapo") == {"train.updates_from"}
    assert found["dapo_m2"]["guide.when"] == ["zero_reward"]
    assert found["dapo_m2_updates"]["train.updates_from"] == str(tmp_path / "dapo_m2-policy-3-seed-0/metrics.jsonl")
    for flags in found.values():
        assert faults(Settings(flags | {"device": "cpu"})) == []
        assert not any("learning rate" in said for said in warnings(Settings(flags))), "it is constant"


def test_it_has_one_seed_of_six_policies_and_the_settings_of_the_guided_study() -> None:
    assert [arm.seeds for arm in DESIGN.arms] == [1] * 4
    assert (DESIGN.policies, DESIGN.task, DESIGN.steps) == ((0, 1, 2, 3, 4, 5), "trail", 80)
    # Three times the updates took 8,469 +- 1,860 prompts in the guided study, the most of all arms without M1.
    assert DESIGN.steps * DESIGN.prompts * DESIGN.prompts_for_filtering > 1.9 * (8469 + 1860)


# --- runs


class Ended:
    """A process that has ended."""

    def poll(self) -> int:
        return 0


class Runner:
    """Runs every command at once; M2's second policy makes other numbers of updates than its first.

    Attributes:
        told: each run of training -> the updates that it has to make, by the file that its command names.
    """

    def __init__(self) -> None:
        self.told: dict[str, list[int] | None] = {}

    def start(self, command: list[str], log: Path) -> Ended:
        if "eval" in command:
            measured(Path(command[command.index("--out") + 1]), 0.5)
            return Ended()
        folder, flags = log.parent, flags_of(command)
        file = flags["train.updates_from"]
        self.told[folder.name] = told = read_updates(file, 3) if file else None
        made = told or ([12, 9, 4 + ("policy-1" in folder.name)] if flags["guide.model"] else [4, 4, 4])
        rows = (
            {"step": step, "policy/updates": number, "rollout/prompts_consumed": 50.0 * step}
            for step, number in enumerate(made, 1)
        )
        (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        row = {"step": 3, "eval_heldout_pass1": 0.5, "eval_heldout_entropy_token_mean": 0.3}
        (folder / "evaluations.jsonl").write_text(json.dumps(row) + "\n")
        (folder / "run.json").write_text("{}")
        return Ended()

    def finish(self, process: Ended) -> None:
        pass


@pytest.mark.parametrize("jobs", [1, 2])
def test_dapo_with_m2s_updates_begins_when_m2_has_ended_and_makes_what_that_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, jobs: int
) -> None:
    monkeypatch.setattr(runner.time, "sleep", lambda seconds: None)
    one = study(tmp_path, steps=3, jobs=jobs, policies=(0, 1))
    for name in ("start", "start-policy-1", "guide"):
        measured(tmp_path / name, 0.1)
    pretended = Runner()
    following_first = sorted(one.jobs_in_order(), key=lambda job: job.arm.follows is None)
    runner.run(one, following_first, pretended)  # type: ignore[arg-type]
    assert len(pretended.told) == 8
    assert pretended.told.pop("dapo_m2_updates-seed-0") == [12, 9, 4]
    assert pretended.told.pop("dapo_m2_updates-policy-1-seed-0") == [12, 9, 5]
    assert list(pretended.told.values()) == [None] * 6
    records = record.load(one.records)
    guide_study.check_updates(records)
    assert {run.training["updates"] for run in records if run.arm == "dapo_m2_updates"} == {(12, 9, 4), (12, 9, 5)}


# --- tables


def made(arm: str, policy: int, end: float, reached: int | None, updates: float = 4.0) -> Record:
    """Evaluations at steps 2, 4 and 6; 100 prompts a step."""
    rows = tuple(
        {"step": step, "pass@1": 0.45 if reached is not None and step >= reached else 0.2, "entropy": 0.1}
        for step in (2, 4, 6)
    )
    series = {"prompts": tuple(100.0 * step for step in range(1, 7)), "updates": (updates,) * 6}
    final = {"pass@1": end, "pass@32": 0.9, "entropy_response_mean": 0.01}
    return Record(arm, 0, (arm,), 6, "abc", 200.0, rows, series, final=final, policy=policy)


def test_prompts_are_counted_until_the_level_and_in_all_where_it_is_not_reached() -> None:
    reached, never = (guide_study.outcomes(made("dapo", 0, 0.7, at)) for at in (4, None))
    assert (reached["prompts until 0.40"], never["prompts until 0.40"]) == (400, 600)
    assert (reached["runs that reach 0.40"], never["runs that reach 0.40"]) == (1, 0)
    assert (reached["pass@1"], reached["updates a step"], reached["prompts in all"]) == (0.7, 4, 600)


def test_a_planted_gain_of_the_guide_is_found_in_its_family(tmp_path: Path) -> None:
    rng = random.Random(5)
    records = []
    for policy in range(6):
        level = 0.5 + 0.1 * rng.random()
        for arm, gain, reached in (("dapo", 0.0, 6), ("dapo_m2_updates", 0.1, 4), ("supervised", 0.1, 4)):
            updates = 9.0 if arm != "dapo" else 4.0
            records.append(made(arm, policy, level + gain + rng.gauss(0, 0.005), reached, updates))
        records.append(made("dapo_m2", policy, level + 0.2 + rng.gauss(0, 0.005), 2, 9.0))
    # Only the last policy's M2 is later, so that the differences in prompts are not all equal.
    records[-1] = made("dapo_m2", 5, 0.75, 4, 9.0)
    text = guide_study.analyse(saved(tmp_path, records), tmp_path)
    family = text[text.index("What of M2 is the guide's") : text.index("Each against DAPO")]
    assert "p, Holm of 6" in family
    rows = {
        tuple(cell.strip() for cell in line.split("|")[1:3]): line.split("|")[4].strip()
        for line in family.splitlines()
        if line.startswith(("| DAPO + M2 -", "| supervised -"))
    }
    assert len(rows) == 6
    bold = {pair for pair, gap in rows.items() if gap.startswith("**")}
    # -200, five times, and 0: t = -5 for both differences of M2.
    assert bold == {
        *(("DAPO + M2 - M2's updates", outcome) for outcome in ("pass@1", "prompts until 0.40")),
        *(("DAPO + M2 - supervised", outcome) for outcome in ("pass@1", "prompts until 0.40")),
    }
    assert rows["DAPO + M2 - M2's updates", "prompts until 0.40"].startswith("**-166.7 ±")
    assert float(rows["DAPO + M2 - M2's updates", "pass@1"].strip("*").split(" ")[0]) == pytest.approx(0.1, abs=0.02)
    assert (tmp_path / "table.md").read_text() == text


def test_records_of_other_numbers_of_updates_than_m2s_are_refused(tmp_path: Path) -> None:
    ours, theirs = made("dapo_m2_updates", 2, 0.5, 4, 9.0), made("dapo_m2", 2, 0.5, 4, 8.0)
    for records in ([ours, theirs], [ours]):
        with pytest.raises(
            ValueError, match=r"dapo_m2_updates-policy-2-seed-0 did not make as many .* as dapo_m2-policy"
        ):
            guide_study.check_updates(records)
