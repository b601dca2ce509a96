"""The entropy study: its task, its arms, its statistics by hand, and its analysis of results whose answer is known."""

import dataclasses
import itertools
import json
import math
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

import designs
import dose
import entropy_study
import gates
import inference
import policy as policy_of_a_task
import record
import wordings
from math_reward.grader import Verdict, grade
from openrlhf_gtpo.report.run import Run
from record import Record

from .. import preloaded
from .loop import shared_cluster

ROOT = Path(__file__).resolve().parents[2]
DESIGN = entropy_study.DESIGN
NAMES = {arm.key: arm.title for arm in DESIGN.arms}
task = wordings.TASK


# --- the task


def test_each_operation_has_eight_wordings_and_all_of_them_lead_to_the_same_result() -> None:
    # c multiplies by 9 what is divisible by 3, else adds 3.
    row = gates.Row("c", 6)
    responses = {task.worked(row, rng=random.Random(seed)) for seed in range(300)}
    assert responses == {f"c6{word}9=4\n\\boxed{{4}}" for word in wordings.MULTIPLY}
    assert len(set(wordings.MULTIPLY + wordings.ADD)) == 16
    assert {task.worked(row, 1.0, random.Random(seed)) for seed in range(300)} == {
        f"c6{word}3=9\n\\boxed{{9}}" for word in wordings.ADD
    }
    assert task.question(gates.Row("cc", 6)) == "Words cc on 6?"


def test_right_responses_of_one_question_differ_and_are_all_graded_right() -> None:
    for row in task.expressions(20, 5, held_out=True):
        responses = {task.worked(row, rng=random.Random(seed)) for seed in range(20)}
        assert len(responses) == 20, "of at least 8 ** 8 wordings"
        for response in responses:
            assert grade(response, task.answer(row)).verdict is Verdict.CORRECT


def test_every_line_of_a_worked_response_is_right_arithmetic() -> None:
    for row in task.expressions(200, 6, held_out=False):
        digit = row.digit
        for line, letter in zip(task.worked(row, rng=random.Random(1)).splitlines(), row.letters, strict=False):
            match = re.fullmatch(r"(.)(\d)(.+)(\d)=(\d)", line)
            assert match is not None
            left, word, right, result = int(match[2]), match[3], int(match[4]), int(match[5])
            assert (match[1], left) == (letter, digit)
            digit = (left * right if word in wordings.MULTIPLY else left + right) % 10
            assert result == digit


def test_both_operations_have_wordings_of_the_same_lengths() -> None:
    # Else the length of a response would tell whether it is right.
    tokenizer = policy_of_a_task.build_tokenizer(task)
    lengths = [sorted(len(tokenizer(word).input_ids) for word in words) for words in (wordings.MULTIPLY, wordings.ADD)]
    assert lengths == [[1, 1, 1, 1, 1, 2, 3, 4]] * 2


def test_the_longest_prompt_and_response_fit_the_tasks_limits() -> None:
    tokenizer = policy_of_a_task.build_tokenizer(task)
    lengths = []
    for row in task.expressions(300, 7, held_out=False):
        response = tokenizer(task.worked(row, rng=random.Random(2)) + policy_of_a_task.END).input_ids
        assert 7 * len(row.letters) + 4 <= len(response) <= 10 * len(row.letters) + 4 <= task.max_new_tokens
        prompt = tokenizer(policy_of_a_task.chat(task, tokenizer, row)).input_ids
        assert len(prompt) + 10 * len(row.letters) + 4 <= task.max_length
        lengths.append(len(response))
    assert 60 <= min(lengths) <= max(lengths) <= 120


# --- the design


def study(out: Path, **changes: object) -> designs.Study:
    settings: dict[str, object] = {
        "design": DESIGN,
        "out": out,
        "arms": tuple(NAMES),
        "seeds": None,
        "steps": 40,
        "jobs": 1,
        "learning_rate": 1e-4,
        "start": out / "warm_start",
        "guide": None,
        "final_prompts": 200,
    }
    return designs.Study(**(settings | changes))  # type: ignore[arg-type]


def test_the_primary_arms_come_first_and_whole_seeds_before_the_next(tmp_path: Path) -> None:
    order = study(tmp_path).jobs_in_order()
    primary = [arm.key for arm in DESIGN.arms if arm.rank == 0]
    around = [arm.key for arm in DESIGN.arms if arm.rank == 1]
    expected = [(key, seed) for seed in range(8) for key in primary]
    expected += [(key, seed) for seed in range(4) for key in around]
    assert [(job.arm.key, job.seed) for job in order] == expected
    some = study(tmp_path, arms=("grpo", "gtpo_1"), seeds=2).jobs_in_order()
    assert [(job.arm.key, job.seed) for job in some] == [("gtpo_1", 0), ("gtpo_1", 1), ("grpo", 0), ("grpo", 1)]


def test_real_and_shuffled_arms_of_a_dose_differ_in_the_weights_alone(tmp_path: Path) -> None:
    one = study(tmp_path)
    for dose_ in ("1", "3"):
        real, shuffled = (DESIGN.arm(f"{name}_{dose_}") for name in ("gtpo", "gtpo_shuffled"))
        commands = [
            [word.replace(f"{arm.key}-seed-0", "RUN") for word in designs.training(one, designs.Job(arm, 0))]
            for arm in (real, shuffled)
        ]
        place = commands[1].index("--shaping.weights")
        assert commands[1][place : place + 2] == ["--shaping.weights", "shuffled"]
        assert commands[1][:place] + commands[1][place + 2 :] == commands[0]


def test_every_arm_s_command_line_is_accepted_by_the_parser(tmp_path: Path) -> None:
    from openrlhf_gtpo.driver import command_line, presets

    for arm in DESIGN.arms:
        command = designs.training(study(tmp_path), designs.Job(arm, 0))
        flags = command_line.parse(presets.expand(command[command.index("train") + 1 :]).arguments).flags
        assert flags["rollout.batch_size"] * flags["rollout.n_samples_per_prompt"] % flags["train.batch_size"] == 0


# --- statistics


@pytest.mark.parametrize(
    ("probability", "degrees", "value"),
    # From printed tables of Student's t.
    [(0.975, 1, 12.706), (0.975, 7, 2.365), (0.975, 3, 3.182), (0.8, 7, 0.896), (0.995, 10, 3.169), (0.9, 30, 1.310)],
)
def test_quantiles_are_those_of_the_tables(probability: float, degrees: int, value: float) -> None:
    assert inference.quantile(probability, degrees) == pytest.approx(value, abs=6e-4)
    assert inference.tail(value, degrees) == pytest.approx(2 * (1 - probability), rel=2e-3)


def test_with_one_degree_the_tail_is_cauchy_s() -> None:
    for t in (0.1, 1.0, 7.0):
        assert inference.tail(t, 1) == pytest.approx(1 - 2 / math.pi * math.atan(t))


def seeds(values: dict[int, float]) -> dict[inference.Replicate, float]:
    """Values of one policy."""
    return {(0, seed): value for seed, value in values.items()}


def test_a_paired_test_takes_differences_of_the_seeds_that_both_have() -> None:
    # Differences 1, 2, 3: mean 2, deviation 1, t = 2 sqrt(3) = 3.4641 with 2 degrees. Its tail by the closed form for
    # two degrees, 1 - t / sqrt(2 + t^2), is 1 - 3.4641 / sqrt(14) = 0.07418.
    found = inference.paired(seeds({0: 11.0, 1: 22.0, 2: 33.0, 9: 5.0}), seeds({0: 10.0, 1: 20.0, 2: 30.0, 8: 7.0}))
    assert found is not None
    assert (found.mean, found.deviation, found.number) == (2.0, 1.0, 3)
    assert found.p == pytest.approx(0.07418, abs=1e-5)
    assert found.half == pytest.approx(4.303 / math.sqrt(3), abs=1e-3)
    # (4.303 + 1.061) / sqrt(3)
    assert found.visible() == pytest.approx(3.097, abs=2e-3)
    assert inference.paired(seeds({0: 1.0}), seeds({0: 2.0})) is None


def test_the_sign_flip_test_counts_the_choices_of_signs_that_are_as_far_from_0() -> None:
    # Of the eight sums of ±1 ±2 ±3 only 6 and -6 are as far from 0 as 6; of ±1 ±2 ±(-1), whose sum is 2, these are:
    # 4 and -4, and 2, -2 twice each.
    assert inference.sign_flip([1, 2, 3]) == 2 / 8
    assert inference.sign_flip([1, 2, -1]) == 6 / 8
    # 0.1 + 0.2 and 0.3 differ by rounding only: all of ±0.1 ±0.2 ±0.3 that are 0 count where 0 was seen.
    assert inference.sign_flip([0.1, 0.2, -0.3]) == 1
    assert inference.sign_flip([0.3] * 8) == pytest.approx(0.0078125), "the least that eight can give"
    assert inference.sign_flip([0.3] * 17) is None, "too many to try"


def test_welch_takes_the_arms_as_independent() -> None:
    # Variances 2 and 2 of two values each: t = -5 / sqrt(2) with two degrees, whose tail is 1 - t / sqrt(2 + t^2).
    found = inference.paired(seeds({0: 0.0, 1: 2.0}), seeds({0: 7.0, 1: 5.0}))
    assert found is not None
    assert found.welch == pytest.approx(1 - 3.5355339 / math.sqrt(14.5))
    # Means 2 and 6, variances 1 and 9 of three values each: (10 / 3)^2 / ((1/3)^2 / 2 + 3^2 / 2) = 2.4390 degrees and
    # t = -4 / sqrt(10 / 3) = -2.1909. One degree would give 0.273, four 0.094.
    assert inference.welch([1, 2, 3], [3, 6, 9]) == pytest.approx(inference.tail(2.190890, 2.439024))
    assert 0.094 < inference.welch([1, 2, 3], [3, 6, 9]) < 0.273


def test_where_differences_do_not_vary_there_is_nothing_to_test() -> None:
    found = inference.paired(seeds({0: 1.0, 1: 1.0}), seeds({0: 1.0, 1: 1.0}))
    assert found is not None
    assert (found.mean, found.half, found.p, found.flip, found.welch) == (0, 0, None, None, None)


def test_holm_by_hand() -> None:
    # Sorted 0.01, 0.02, 0.03, 0.04: times 4, 3, 2, 1 is 0.04, 0.06, 0.06, 0.04; never below the one before.
    assert inference.holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert inference.holm([0.9, 0.8]) == [1.0, 1.0]
    assert inference.holm([0.02]) == [0.02]
    assert inference.holm([]) == []


def test_the_area_is_the_mean_height_also_at_uneven_steps() -> None:
    assert inference.area([(0, 0.2), (10, 0.4), (40, 0.4)]) == pytest.approx((10 * 0.3 + 30 * 0.4) / 40)
    assert inference.area([(5, 0.3), (9, 0.3)]) == pytest.approx(0.3)
    with pytest.raises(ValueError, match="two points"):
        inference.area([(0, 1.0)])


# --- records and analysis


def made(arm: str, seed: int, pass1: float, pass16: float) -> Record:
    rows = tuple(
        {"step": step, "pass@1": 0.2 + (pass1 - 0.2) * step / 40, "pass@16": pass16, "entropy": 0.4}
        for step in (0, 20, 40)
    )
    series = {"entropy": (0.5, 0.4, 0.3, 0.2, 0.2, 0.2, 0.2, 0.2, 0.3), "length": (60.0,) * 9, "reward": (0.2,) * 9}
    return Record(arm, seed, ("--x", arm), 40, "abc", 100.0, rows, series)


def saved(folder: Path, records: list[Record]) -> Path:
    folder.mkdir(exist_ok=True)
    for one in records:
        (folder / f"{one.arm}-seed-{one.seed}.json").write_text(json.dumps(dataclasses.asdict(one)))
    return folder


def planted(gap: float, arms: tuple[str, ...] = ("gtpo_0", "gtpo_0.1", "gtpo_1", "gtpo_3")) -> list[Record]:
    """Eight seeds of real and shuffled arms. Real ones at alpha2 = 3 end higher by `gap`."""
    rng = random.Random(4)
    found = []
    for seed in range(8):
        level = 0.5 + 0.1 * rng.random()  # seeds differ more than arms
        for arm in (*arms, "gtpo_shuffled_1", "gtpo_shuffled_3"):
            extra = gap if arm == "gtpo_3" else 0.0
            found.append(made(arm, seed, level + extra + rng.gauss(0, 0.01), 0.9 + rng.gauss(0, 0.01)))
    return found


def rows_of(text: str, begin: str) -> list[list[str]]:
    lines = text[text.index(begin) :].splitlines()[2:]
    table = itertools.takewhile(lambda line: line.startswith("|"), lines)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table][2:]


def test_a_planted_difference_is_found_and_nothing_else(tmp_path: Path) -> None:
    text = dose.write(saved(tmp_path, planted(0.08)), tmp_path, NAMES)
    primary = rows_of(text, "Real against shuffled entropies")
    assert [(row[0][-1], row[1], row[3].startswith("**")) for row in primary] == [
        ("1", dose.OUTCOMES[0], False),
        ("1", dose.OUTCOMES[1], False),
        ("3", dose.OUTCOMES[0], True),
        ("3", dose.OUTCOMES[1], False),
    ]
    # The curve rises in a straight line, so a gap of 0.08 at the end is one of 0.04 in the mean over the steps.
    assert float(primary[2][3].strip("*").split(" ")[0]) == pytest.approx(0.04, abs=0.01)
    assert [row[3].startswith("**") for row in rows_of(text, "Each dose against none")] == [False] * 4 + [True, False]
    assert (tmp_path / "dose.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "table.md").read_text() == text


def test_where_nothing_is_planted_nothing_is_found(tmp_path: Path) -> None:
    assert "**" not in dose.write(saved(tmp_path, planted(0.0)), tmp_path, NAMES)


def test_the_tables_compare_the_control_with_none_and_say_ceiling_where_nothing_varies(tmp_path: Path) -> None:
    rng = random.Random(1)
    records = []
    for seed in range(8):
        for arm, level in (("gtpo_0", 0.6), ("gtpo_1", 0.6), ("gtpo_shuffled_1", 0.4)):
            records.append(made(arm, seed, level + rng.gauss(0, 0.01), 1.0))
    text = dose.write(saved(tmp_path, records), tmp_path, NAMES)
    harm = rows_of(text, "Shuffled entropies against none")
    assert [row[0] for row in harm] == ["GTPO shuffled, alpha2 = 1 - GTPO, alpha2 = 0"] * 2
    # In a straight rise 0.2 less at the end is 0.1 less in the mean; a difference in all eight has 2 / 2^8.
    assert float(harm[0][3].strip("*").split(" ")[0]) == pytest.approx(-0.1, abs=0.01)
    assert harm[0][3].startswith("**")
    assert harm[0][6] == "0.0078"
    assert harm[1][3:] == ["+0.0000 ± 0.0000", "ceiling", "", "", "", ""]
    assert rows_of(text, "Real against shuffled entropies")[1][4] == "ceiling"


def test_a_table_s_figures_are_those_of_the_records(tmp_path: Path) -> None:
    records = [made("grpo", seed, value, 0.9) for seed, value in enumerate((0.4, 0.6))]
    text = dose.write(saved(tmp_path, records), tmp_path, NAMES)
    row = next(line for line in text.splitlines() if line.startswith("| GRPO |"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    # Areas 0.3 and 0.4; pass@1 0.4 and 0.6; 12.706 / sqrt(2) * deviation.
    assert cells[:3] == ["GRPO", "2", f"0.3500 ± {12.7062 * statistics.stdev((0.3, 0.4)) / math.sqrt(2):.4f}"]
    assert cells[4].startswith("0.5000 ± ")
    # Means of five: lowest 0.20 (steps 4 to 8), last 0.22.
    assert cells[6].startswith("0.0200 ± 0.0000")


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([], "no records"),
        (
            [made("grpo", 0, 0.4, 0.9), dataclasses.replace(made("dapo", 0, 0.4, 0.9), steps=30)],
            "two numbers of steps: 30 in dapo-seed-0 and 40 in grpo-seed-0",
        ),
        ([made("grpo", 0, 0.4, 0.9), dataclasses.replace(made("grpo", 1, 0.4, 0.9), flags=())], "two sets of flags"),
    ],
)
def test_records_that_cannot_be_compared_are_refused(tmp_path: Path, records: list[Record], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dose.write(saved(tmp_path, records), tmp_path, NAMES)


def test_a_record_has_the_run_s_curves_from_the_start_on() -> None:
    metrics = [
        {
            "step": step,
            "entropy/token_mean": 0.5 - 0.1 * step,
            "rollout/response_length_mean": 60.0,
            "rollout/pass_rate": 0.25,
            "reward/items_total": 128.0 * step,
        }
        for step in (1, 2)
    ]
    evaluation = {"step": 2, "eval_wordings_pass1": 0.3, "eval_wordings_pass16": 0.8, "eval_wordings_pass1_low": 0.1}
    evaluation |= {"eval_wordings_entropy_token_mean": 0.31, "eval_wordings_entropy_response_mean": 0.33}
    run = Run("a", metrics, evaluations=[evaluation])
    start = {"pass@1": 0.2, "pass@16": 0.9, "entropy_token_mean": 0.5, "entropy_response_mean": 0.6, "truncated": 0.0}
    found = record.of(run, start, arm="grpo", seed=3, flags=("--x",), steps=2, commit="abc", seconds=9.0)
    assert found.evaluations == (
        {"step": 0, "pass@1": 0.2, "pass@16": 0.9, "entropy": 0.5},
        {"step": 2, "pass@1": 0.3, "pass@16": 0.8, "entropy": 0.31},
    )
    assert found.training == {
        "entropy": (0.4, 0.3),
        "length": (60.0, 60.0),
        "reward": (0.25, 0.25),
        "responses": (128.0, 256.0),
    }
    assert len(json.dumps(dataclasses.asdict(found))) < 4096


def test_the_analysis_is_a_command_of_its_own(tmp_path: Path) -> None:
    saved(tmp_path, planted(0.08))
    script = ROOT / "launch" / "compare" / "entropy_study.py"
    done = subprocess.run([sys.executable, str(script), "--analyse", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Each dose against none" in done.stdout
    empty = tmp_path / "nothing"
    empty.mkdir()
    done = subprocess.run([sys.executable, str(script), "--analyse", str(empty)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (
        2,
        "entropy_study.py: there are no records of runs: run the study first\n",
    )


# --- with the real loop

SMALL = """
import dataclasses, sys
sys.path += {paths}
import command, entropy_study
small = dict(task="last_digit", max_length=96, max_new_tokens=40, evaluation_prompts=8, prompts=4, batch_size=32)
command.main(dataclasses.replace(entropy_study.DESIGN, **small))
"""


def small_study(policy: Path, out: Path) -> "subprocess.Popen[str]":
    code = SMALL.format(paths=[str(ROOT / "launch" / "compare"), str(ROOT / "launch" / "laptop")])
    flags = ["--arms", "gtpo_1,gtpo_shuffled_1", "--seeds", "1", "--steps", "2", "--jobs", "1"]
    return subprocess.Popen(
        [preloaded.python(), "-c", code, *flags, "--start", str(policy), "--out", str(out)],
        env={**os.environ, **shared_cluster()},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


@pytest.mark.engine
def test_a_small_study_that_is_stopped_goes_on_with_the_run_it_was_in(policy: Path, tmp_path: Path) -> None:
    out = tmp_path / "entropy"
    first = small_study(policy, out)
    try:
        deadline = time.monotonic() + 600
        while not (out / "gtpo_shuffled_1-seed-0" / "log").exists():
            assert first.poll() is None, first.communicate()[0][-3000:]
            assert time.monotonic() < deadline
            time.sleep(0.5)
        first.send_signal(signal.SIGTERM)
        assert first.wait(120) == 128 + signal.SIGTERM
    finally:
        first.kill()
    finished = out / "records" / "gtpo_1-seed-0.json"
    made_at = finished.stat().st_mtime_ns
    assert [path.name for path in finished.parent.iterdir()] == [finished.name]

    second = small_study(policy, out)
    said, _ = second.communicate(timeout=600)
    assert second.returncode == 0, said[-3000:]
    assert "1 are done already" in said
    assert finished.stat().st_mtime_ns == made_at, "it was not done again"
    runs_ = record.load(out / "records")
    assert [run.arm for run in runs_] == ["gtpo_1", "gtpo_shuffled_1"]
    for run in runs_:
        assert [row["step"] for row in run.evaluations] == [0, 1, 2]
        assert all({"pass@1", "pass@4", "pass@16", "entropy"} <= row.keys() for row in run.evaluations)
        assert len(run.training["entropy"]) == 2
        assert run.training["responses"][-1] >= 2 * 4 * 16
        assert run.seconds > 0
        assert {"python", "torch", "openrlhf", "openrlhf-gtpo"} <= run.versions.keys()
        assert run.settings["train.batch_size"] == 32
        assert run.settings["actor.adam.lr"] == DESIGN.learning_rate
        assert len(run.training["gradient_norm"]) == 2
    # Both begin with the same policy, measured once, see the same prompts in the same order and draw with the same
    # noise: so their responses of the first step are the same.
    assert runs_[0].evaluations[0] == runs_[1].evaluations[0]
    for content in ("actor.model_name_or_path", "data.prompt_dataset", "eval.dataset", "order_of_prompts"):
        assert runs_[0].sha256[content] == runs_[1].sha256[content] is not None
    for figure in ("entropy", "length", "reward"):
        assert runs_[0].training[figure][0] == runs_[1].training[figure][0]
    assert runs_[0].sha256["final_weights"] != runs_[1].sha256["final_weights"]
    assert "| GTPO shuffled, alpha2 = 1 | 1 |" in said
