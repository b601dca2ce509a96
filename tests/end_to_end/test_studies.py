"""Studies: their runs' command lines, their statistics and tables by hand, and a small one with the real loop that is
interrupted."""

import dataclasses
import itertools
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import command
import designs
import guided
import inference
import record
import results
import runner
from record import Record
from study import DESIGN as COMPARISON

from .. import preloaded
from ..refusals import assert_refusal
from .loop import shared_cluster

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "launch" / "compare"


def study(out: Path, design: designs.Design = COMPARISON, **changes: Any) -> designs.Study:
    settings: dict[str, Any] = {
        "arms": tuple(arm.key for arm in design.arms),
        "seeds": 2,
        "steps": 4,
        "jobs": 2,
        "start": out / "warm_start",
        "guide": out / "guide_warm_start" if design.has_guide else None,
        "final_prompts": 200,
        "policies": (0, 3),
    }
    return designs.Study(design, out, **(settings | changes))


def flags_of(command: list[str]) -> dict[str, Any]:
    """What the trainer's own parser makes of a run's command line."""
    from openrlhf_gtpo.flags import parse

    flags = vars(parse(command[command.index("train") + 1 :]))
    del flags["logger.wandb.run_name"]  # by default the minute
    return flags


# --- runs


def test_arms_share_policy_prompts_and_noise_within_a_policy_and_seed_and_nothing_else(tmp_path: Path) -> None:
    one = study(tmp_path, arms=("grpo", "gtpo"))
    found = {job.name: flags_of(designs.training(one, job)) for job in one.jobs_in_order()}
    # Both arms of a policy and seed come before the next, so that a study that was stopped has whole comparisons.
    replicates = ("seed-0", "policy-3-seed-0", "seed-1", "policy-3-seed-1")
    assert list(found) == [f"{arm}-{replicate}" for replicate in replicates for arm in ("grpo", "gtpo")]
    for replicate in replicates:
        arms = [found[f"{arm}-{replicate}"] for arm in ("grpo", "gtpo")]
        shared = ("train.seed", "actor.model_name_or_path", "data.prompt_dataset", "eval.dataset")
        assert all(arms[0][flag] == arms[1][flag] for flag in shared)
    assert len({flags["train.seed"] for flags in found.values()}) == 4, "one for each policy and seed"
    policies = {name: flags["actor.model_name_or_path"] for name, flags in found.items()}
    assert policies["grpo-seed-1"] == str(tmp_path / "warm_start" / "model")
    assert policies["grpo-policy-3-seed-1"] == str(tmp_path / "warm_start-policy-3" / "model")


def test_the_guided_arms_differ_in_the_guides_flags_alone(tmp_path: Path) -> None:
    one = study(tmp_path, guided.DESIGN)
    found = {arm.key: flags_of(designs.training(one, designs.Job(arm, 1))) for arm in guided.DESIGN.arms}
    model = str(tmp_path / "guide_warm_start" / "model")
    for key, when in (("dapo_m1", ["all"]), ("dapo_m2", ["zero_reward"]), ("dapo_m1_m2", ["all", "zero_reward"])):
        own = {name: value for name, value in found[key].items() if value != found["dapo"].get(name)}
        places = {"ckpt.output_dir", "ckpt.path", "logger.metrics_path"}
        assert own.keys() - places <= {"guide.model", "guide.samples", "guide.when"}
        assert (own["guide.model"], own["guide.samples"], found[key]["guide.when"]) == (model, 2, when)
    assert found["dapo_updates"]["train.max_epochs"] == 3 * found["dapo"]["train.max_epochs"]


def test_a_folder_of_other_settings_or_of_another_commit_is_refused(tmp_path: Path) -> None:
    one = study(tmp_path, commit="abc")
    runner.check_folder(one)
    runner.check_folder(one)
    for other in ({"commit": "def"}, {"steps": 5}, {"guide": tmp_path / "elsewhere" / "policy"}):
        with pytest.raises(SystemExit) as refused:
            runner.check_folder(dataclasses.replace(one, **other))  # type: ignore[arg-type]
        assert_refusal(str(refused.value), str(tmp_path), *other, "--out")


# --- statistics


def seeds(*values: float) -> dict[inference.Replicate, float]:
    """Values of one policy."""
    return {(0, seed): value for seed, value in enumerate(values)}


def test_a_paired_test_takes_differences_of_the_runs_that_both_have() -> None:
    # Differences 1, 2, 3: mean 2, deviation 1, t = 2 sqrt(3) = 3.4641 with 2 degrees. Its tail by the closed form for
    # two degrees, 1 - t / sqrt(2 + t^2), is 1 - 3.4641 / sqrt(14) = 0.07418.
    found = inference.paired(seeds(11.0, 22.0, 33.0) | {(1, 0): 5.0}, seeds(10.0, 20.0, 30.0) | {(2, 0): 7.0})
    assert found is not None
    assert (found.mean, found.deviation, found.number) == (2.0, 1.0, 3)
    assert found.p == pytest.approx(0.07418, abs=1e-5)
    assert found.half == pytest.approx(4.303 / math.sqrt(3), abs=1e-3)
    # (4.303 + 1.061) / sqrt(3)
    assert found.visible() == pytest.approx(3.097, abs=2e-3)
    assert inference.paired(seeds(1.0), seeds(2.0)) is None, "one pair says nothing"


def test_the_sign_flip_test_counts_the_choices_of_signs_that_are_as_far_from_0() -> None:
    # Of the eight sums of ±1 ±2 ±3 only 6 and -6 are as far from 0 as 6; of ±1 ±2 ±(-1), whose sum is 2, these are:
    # 4 and -4, and 2, -2 twice each.
    assert inference.sign_flip([1, 2, 3]) == 2 / 8
    assert inference.sign_flip([1, 2, -1]) == 6 / 8
    # 0.1 + 0.2 and 0.3 differ by rounding only: all of ±0.1 ±0.2 ±0.3 that are 0 count where 0 was seen.
    assert inference.sign_flip([0.1, 0.2, -0.3]) == 1
    assert inference.sign_flip([0.3] * 16) == 2 / 2**16
    assert inference.sign_flip([0.3] * 17) is None, "too many to try"


def test_holm_by_hand() -> None:
    # Sorted 0.01, 0.02, 0.03, 0.04: times 4, 3, 2, 1 is 0.04, 0.06, 0.06, 0.04; never below the one before.
    assert inference.holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert inference.holm([0.9, 0.8]) == [1.0, 1.0]
    assert inference.holm([]) == []


# --- the course of training


def made(arm: str, seed: int, end: float, **changes: Any) -> Record:
    """A record of eight steps whose final figures are all `end`; training's evaluations rise to it."""
    figures = (*results.FIGURES, *guided.LAYOUT.figures)
    series = {"entropy": (0.1,) * 8, "seconds": (2.0,) * 8, "responses": tuple(100.0 * s for s in range(1, 9))}
    series["prompts"] = tuple(1000.0 * s for s in range(1, 9))
    evaluations = tuple({"step": s, "pass@1": end * s / 8, "samples": 10.0} for s in (4, 8))
    plain = Record(
        arm, seed, ("--x", arm), 8, "abc", 60.0, evaluations, series, final=dict.fromkeys(figures, end),
        before={"start": dict.fromkeys(figures, 0.2)},
    )  # fmt: skip
    return dataclasses.replace(plain, **changes)


def saved(folder: Path, records: Sequence[Record]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for one in records:
        (folder / f"{one.name}.json").write_text(json.dumps(dataclasses.asdict(one)))
    return folder


def course(**series: tuple[float | None, ...]) -> Record:
    return made("a", 0, 0.5, training=series)


def test_a_level_is_reached_at_the_first_evaluation_that_has_it_and_prompts_are_counted_up_to_there() -> None:
    consumed = tuple(itertools.accumulate([70.0, 60, 50, 40, 30, 20, 16, 16]))
    rows = tuple({"step": 2 * n, "pass@1": value} for n, value in enumerate((0.05, 0.12, 0.09, 0.2), 1))
    run = dataclasses.replace(course(prompts=consumed), evaluations=rows)
    assert results.level_reached(run, 0.10) == 4
    assert results.prompts_to(run, 0.10) == 70 + 60 + 50 + 40
    assert results.level_reached(run, 0.20) == 8
    assert results.prompts_to(run, 0.20) == results.prompts_consumed(run) == 302
    assert results.level_reached(run, 0.40) is None
    assert results.prompts_to(run, 0.40) is None


# --- tables

NAMES = {arm.key: arm.title for arm in COMPARISON.arms}


def tables(folder: Path, finals: dict[str, list[float]], layout: results.Layout = results.COMPARISON) -> str:
    """The tables of a study whose runs ended at these figures."""
    records = [made(arm, seed, value) for arm, values in finals.items() for seed, value in enumerate(values)]
    text = results.analyse(saved(folder / "records", records), folder, NAMES | {"dapo_m2": "DAPO + M2"}, layout)
    assert (folder / "table.md").read_text() == text
    return text


def test_differences_are_taken_between_runs_of_the_same_seed(tmp_path: Path) -> None:
    # Seeds differ by more than the algorithms do, yet gtpo is better by 0.10, 0.11 and 0.12 with each of them.
    text = tables(tmp_path, {"grpo": [0.2, 0.5, 0.8], "gtpo": [0.3, 0.61, 0.92], "dapo": [0.3, 0.4, 0.9]})
    assert "| GRPO | 0.500 ± 0.745 |" in text
    lines = text[text.index("Difference") :].splitlines()
    assert next(line for line in lines if line.startswith("| GTPO")).startswith("| GTPO | **0.110 ± 0.025** |")
    assert next(line for line in lines if line.startswith("| DAPO")).startswith("| DAPO | 0.033 ± 0.287 |")
    assert "the 12 comparisons" in text
    # 800 items, of which an evaluation of 10 was before the last step's count and one after it.
    assert next(line for line in text.splitlines() if line.startswith("| GRPO")).endswith("| 2.000 ± 0.000 | 790 |")


def test_a_difference_is_bold_only_if_it_survives_the_number_of_comparisons(tmp_path: Path) -> None:
    # Differences 0.1, 0.2, 0.2 alone have t = 5, with two degrees p = 1 - 5 / sqrt(27) = 0.038: the interval is
    # above 0. The table has six of them, so p is 0.23 after the correction.
    text = tables(tmp_path, {"grpo": [0.2, 0.5, 0.7], "gtpo": [0.3, 0.7, 0.9]})
    assert "| GTPO | 0.167 ± 0.143 |" in text
    assert "**" not in text


GRPO = made("grpo", 0, 0.5, versions={"torch": "2.13.0"})


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"commit": "def"}, ["abc", "def"]),
        ({"steps": 3}, ["8", "3"]),
        ({"arm": "grpo", "seed": 1, "flags": ()}, ["grpo", "--x"]),
        ({"versions": {"torch": "2.14.0"}}, ["torch", "2.13.0", "2.14.0"]),
    ],
)
def test_records_that_do_not_belong_together_are_refused(
    other: dict[str, Any],
    named: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    one = dataclasses.replace(made("gtpo", 0, 0.5), **other)
    monkeypatch.setattr(sys, "argv", ["study.py", "--analyse", str(saved(tmp_path, [GRPO, one]))])
    with pytest.raises(SystemExit) as ended:
        command.main(COMPARISON, "")
    assert ended.value.code == 2
    assert_refusal(capsys.readouterr().err, GRPO.name, one.name, *named)


# --- with the real loop


def small_study(policy: Path, out: Path) -> subprocess.Popen[str]:
    flags = ["--start", str(policy), "--algorithms", "dapo,gtpo", "--seeds", "1", "--steps", "2", "--jobs", "1"]
    flags += ["--final_prompts", "16", "--out", str(out)]
    return subprocess.Popen(
        [preloaded.python(), str(SCRIPTS / "study.py"), *flags],
        env={**os.environ, **shared_cluster()},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


@pytest.mark.nightly
@pytest.mark.engine
def test_a_small_study_that_is_interrupted_goes_on_and_ends_in_a_table(policy: Path, tmp_path: Path) -> None:
    out = tmp_path / "compare"
    first = small_study(policy, out)
    try:
        deadline = time.monotonic() + 600
        while not (out / "gtpo-seed-0" / "log").exists():  # dapo is finished
            assert first.poll() is None, first.communicate()[0][-3000:]
            assert time.monotonic() < deadline
            time.sleep(0.5)
        first.send_signal(signal.SIGTERM)
        assert first.wait(60) == 128 + signal.SIGTERM
    finally:
        first.kill()
    made_at = (out / "dapo-seed-0" / "final" / "eval.json").stat().st_mtime_ns

    second = small_study(policy, out)
    said, _ = second.communicate(timeout=600)
    assert second.returncode == 0, said[-3000:]
    assert "1 are done already" in said
    assert (out / "dapo-seed-0" / "final" / "eval.json").stat().st_mtime_ns == made_at, "it was not done again"
    for preset in ("dapo", "gtpo"):
        metrics = (out / f"{preset}-seed-0" / "metrics.jsonl").read_text().splitlines()
        assert [json.loads(line)["step"] for line in metrics] == [1, 2], "--train.max_steps, whatever filtering takes"
    assert "| GTPO |" in said
    runs = record.load(out / "records")
    assert [run.name for run in runs] == ["dapo-seed-0", "gtpo-seed-0"]
    assert runs[0].before["start"] == runs[1].before["start"]
