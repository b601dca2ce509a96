"""The guided study: its arms' command lines, and what it reads from the course of training, checked by hand."""

import itertools
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import designs
import guided
import record
import results
import runner
from openrlhf_gtpo.report.run import Run

ROOT = Path(__file__).resolve().parents[2]

DESIGN = guided.DESIGN


def study(out: Path, **changes: Any) -> designs.Study:
    settings: dict[str, Any] = {
        "design": DESIGN,
        "out": out,
        "arms": tuple(arm.key for arm in DESIGN.arms),
        "seeds": 3,
        "steps": 120,
        "jobs": 2,
        "learning_rate": 1e-4,
        "start": out / "warm_start",
        "guide": out / "guide_warm_start",
        "final_prompts": 200,
    }
    return designs.Study(**(settings | changes))


def test_the_arms_differ_in_the_guides_flags_alone(tmp_path: Path) -> None:
    one = study(tmp_path)
    commands = {arm.key: designs.training(one, designs.Job(arm, 1)) for arm in DESIGN.arms}
    base = [word.replace("dapo-seed-1", "RUN") for word in commands["dapo"]]
    model = str(tmp_path / "guide_warm_start" / "model")
    for key, when in (("dapo_m1", ["all"]), ("dapo_m2", ["zero_reward"]), ("dapo_m1_m2", ["all", "zero_reward"])):
        extra = ["--guide.model", model, "--guide.samples", "2", "--guide.when", *when]
        command = [word.replace(f"{key}-seed-1", "RUN") for word in commands[key]]
        place = command.index("--guide.model")
        assert command[place : place + len(extra)] == extra
        assert command[:place] + command[place + len(extra) :] == base


def test_an_update_divides_the_responses_of_a_step_with_and_without_the_guides() -> None:
    assert designs.PROMPTS * designs.SAMPLES % DESIGN.batch_size == 0
    assert designs.PROMPTS * (designs.SAMPLES + guided.GUIDE_SAMPLES) % DESIGN.batch_size == 0


def test_the_arm_with_more_updates_has_no_guide_and_differs_in_them_alone(tmp_path: Path) -> None:
    one = study(tmp_path)
    plain, more = (designs.training(one, designs.Job(DESIGN.arm(key), 1)) for key in ("dapo", "dapo_updates"))
    more = [word.replace("dapo_updates-seed-1", "dapo-seed-1") for word in more]
    place = more.index("--train.max_epochs")
    assert more[place : place + 2] == ["--train.max_epochs", "3"]
    assert more[:place] + more[place + 2 :] == plain


def test_the_arm_with_more_updates_makes_twelve_a_step_as_m2_does_at_most(tmp_path: Path) -> None:
    from openrlhf_gtpo.controller.schedule import updates
    from openrlhf_gtpo.driver import command_line, presets
    from openrlhf_gtpo.settings import Settings

    for key, expected in (("dapo", 4), ("dapo_updates", 12)):
        command = designs.training(study(tmp_path), designs.Job(DESIGN.arm(key), 0))
        line = command_line.parse(presets.expand(command[command.index("train") + 1 :]).arguments)
        assert updates(Settings(line.flags).nested(), math.inf) == 120 * expected


@pytest.mark.engine
def test_plain_dapos_command_line_is_accepted(policy: Path, tmp_path: Path) -> None:
    one = study(tmp_path, start=policy)
    (tmp_path / "heldout.jsonl").write_bytes((policy / "heldout.jsonl").read_bytes())
    command = designs.training(one, designs.Job(DESIGN.arm("dapo"), 0))
    done = subprocess.run([*command, "--dry-run"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "4 a step, of 32 responses" in done.stdout
    assert "120 at most" in done.stdout


def test_a_folder_of_another_guide_is_refused(tmp_path: Path) -> None:
    runner.check_folder(study(tmp_path))
    runner.check_folder(study(tmp_path))
    with pytest.raises(SystemExit, match="holds runs of other settings"):
        runner.check_folder(study(tmp_path, guide=tmp_path / "elsewhere" / "policy"))


def course(pass1: list[float], consumed: list[int]) -> Run:
    """A run with an evaluation each second step."""
    so_far = itertools.accumulate(consumed)
    metrics = [{"step": s, "rollout/prompts_consumed": n} for s, n in enumerate(so_far, 1)]
    evaluations = [
        {"step": 2 * s, "eval_trail_pass1": value, "eval_trail_pass1_high": 1.0, "eval_trail_pass16": 1.0}
        for s, value in enumerate(pass1, 1)
    ]
    return Run("a", metrics, evaluations=evaluations)


def test_a_level_is_reached_at_the_first_evaluation_that_has_it_and_prompts_are_counted_up_to_there() -> None:
    run = course([0.05, 0.12, 0.09, 0.2], [70, 60, 50, 40, 30, 20, 16, 16])
    assert results.level_reached(run, 0.10) == 4
    assert results.prompts_to(run, 0.10) == 70 + 60 + 50 + 40
    assert results.level_reached(run, 0.20) == 8
    assert results.prompts_to(run, 0.20) == results.prompts_consumed(run) == 302
    assert results.level_reached(run, 0.40) is None
    assert results.prompts_to(run, 0.40) is None
    assert results.prompts_consumed(Run("b", [{"step": 1}])) is None, "an earlier version did not count them"


def test_a_steps_share_weighs_as_much_as_what_it_is_a_share_of() -> None:
    pairs = ((0.5, 30), (0.2, 10), (0.0, 0))
    rows = [{"step": s, "share": share, "all": number} for s, (share, number) in enumerate(pairs, 1)]
    assert results.average(Run("a", rows), "share", "all") == pytest.approx((15 + 2) / 40)
    assert results.average(Run("a", rows[2:]), "share", "all") is None, "nothing to have a share of"
    assert results.average(Run("a", [{"step": 1}]), "share", "all") is None


def test_a_column_tells_how_many_seeds_have_a_value() -> None:
    column = guided.at_level(0.1)[0]
    early, late, never = course([0.1], [1, 1]), course([0.0, 0.3], [1] * 4), course([0.0], [1, 1])
    # Mean 3, standard deviation sqrt(2), two seeds: 12.706 / sqrt(2) * sqrt(2).
    assert column.cell(seeds(early, late)) == "3.000 ± 12.706"
    assert column.cell(seeds(early, late, never)) == "3.000 ± 12.706 (2 of 3 runs)"
    assert column.cell(seeds(early, never)) == "2.000 (1 of 2 runs)"
    assert column.cell(seeds(never, never)) == "not reached"


def seeds(*runs: Run) -> dict[tuple[int, int], Run]:
    """Runs of one policy."""
    return {(0, seed): run for seed, run in enumerate(runs)}


def study_files(out: Path, finals: dict[str, list[float]]) -> dict[str, dict[tuple[int, int], Path]]:
    """A finished study; every run was at half its last pass@1 after two of four steps."""

    def measured(folder: Path, value: float) -> None:
        folder.mkdir(parents=True)
        figures = {key: {"mean": value, "low": 0, "high": 1} for key in guided.LAYOUT.figures}
        (folder / "eval.json").write_text(json.dumps({"benchmarks": {"heldout": figures}}))
        responses = [(0, True), (1, False), (0, True), (2, True), (1, False), (0, False)]
        lines = (json.dumps({"prompt": prompt, "correct": correct}) for prompt, correct in responses)
        (folder / "eval.jsonl").write_text("\n".join(lines))

    measured(out / "start", 0.05)
    measured(out / "guide", 0.6)
    folders: dict[str, dict[tuple[int, int], Path]] = {}
    for key, values in finals.items():
        for seed, value in enumerate(values):
            folder = out / f"{key}-seed-{seed}"
            measured(folder / "final", value)
            row = {"entropy/token_mean": 0.1, "timing/step_total": 2.0}
            rescued = {"guide/rescued_share": 0.25, "guide/pass_rate": 0.625} if key != "dapo" else {}
            rescued |= {"guide/zero_reward_groups": 8, "guide/responses": 16} if rescued else {}
            lines = [
                json.dumps({"step": s, "rollout/prompts_consumed": 1000 * s, **row, **rescued}) for s in range(1, 5)
            ]
            (folder / "metrics.jsonl").write_text("\n".join(lines))
            lines = [json.dumps({"step": s, "eval_trail_pass1": value * s / 4}) for s in (2, 4)]
            (folder / "evaluations.jsonl").write_text("\n".join(lines))
            folders.setdefault(key, {})[0, seed] = folder
    return folders


def test_the_table_has_the_guide_the_levels_and_only_what_an_arm_has(tmp_path: Path) -> None:
    folders = study_files(tmp_path, {"dapo": [0.1, 0.12], "dapo_m2": [0.4, 0.3]})
    text = results.write(tmp_path, {"dapo": "DAPO", "dapo_m2": "DAPO + M2"}, folders, guided.LAYOUT, "A title")
    lines = text.splitlines()
    assert lines[2] == "| start | 0.050 | 0.050 | 0.050 |  |  |  |  |"
    assert lines[3] == "| guide | 0.600 | 0.600 | 0.600 |  |  |  |  |"
    assert lines[4].endswith("| 4,000 ± 0 | 2.000 ± 0.000 |  |  |")
    assert lines[5].endswith("| 4,000 ± 0 | 2.000 ± 0.000 | 0.250 ± 0.000 | 0.625 ± 0.000 |")
    levels = lines[next(n for n, line in enumerate(lines) if line.startswith("| Until")) :]
    reached = "4.000 ± 0.000 | 4,000 ± 0"
    assert levels[2] == f"| DAPO | {reached} | not reached |  | not reached |  |"
    some = "4.000 (1 of 2 runs) | 4,000 (1 of 2 runs)"
    # After two steps pass@1 is 0.20 and 0.15: the level 0.20 is reached at steps 2 and 4.
    assert levels[3].startswith("| DAPO + M2 | 2.000 ± 0.000 | 2,000 ± 0 | 3.000 ± 12.706 | 3,000 ± 12,706 |")
    assert levels[3].endswith(f"| {some} |")
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["0.20:_prompts"] == {"dapo": [None, None], "dapo_m2": [2000, 4000]}
    assert "A title" in (tmp_path / "report.html").read_text()


def test_the_records_of_the_runs_give_the_same_tables_as_their_files(tmp_path: Path) -> None:
    folders = study_files(tmp_path, {"dapo": [0.1, 0.12, 0.14], "dapo_m2": [0.4, 0.3, 0.35]})
    names = {arm.key: arm.title for arm in DESIGN.arms}
    expected = results.write(tmp_path, names, folders, guided.LAYOUT, "A title")
    one = study(tmp_path, steps=4, records_at=tmp_path / "elsewhere" / "records")
    for key, runs_ in folders.items():
        for seed in range(len(runs_)):
            job = designs.Job(DESIGN.arm(key), seed)
            assert not job.is_done(one)
            assert (
                record.write(one, job, 60.0)["pass@1"] == [0.1, 0.12, 0.14, 0.4, 0.3, 0.35][seed + 3 * (key != "dapo")]
            )
            assert job.is_done(one)
            (made,) = [run for run in record.load(one.records) if run.name == job.name]
            assert made.solved == dict.fromkeys(("start", "guide", "final"), (2, 0, 1))
    script = ROOT / "launch" / "compare" / "guided.py"
    command = [sys.executable, str(script), "--analyse", str(one.records)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == expected.strip()
    assert all(path.stat().st_size < 4096 for path in one.records.glob("*.json"))
    (one.records / "dapo-seed-0.json").write_text(
        (one.records / "dapo-seed-0.json").read_text().replace('"steps": 4', '"steps": 3')
    )
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (
        2,
        "guided.py: the records have two numbers of steps: 3 in dapo-seed-0 and 4 in dapo-seed-1; keep those of one\n",
    )
