"""The study: what it computes from runs, checked by hand, and a small one with the real loop that is interrupted."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import gates
import record
import results
from gates import Row
from openrlhf_gtpo.report.run import Run

from .. import preloaded
from .loop import shared_cluster

ROOT = Path(__file__).resolve().parents[2]

task = gates.TASK


def test_a_gate_multiplies_or_adds_by_a_property_of_the_digit() -> None:
    # c multiplies by 9 what is divisible by 3, else adds 3; f adds 6 to odd digits, else multiplies by 9.
    assert task.worked(Row("cf", 6)) == "c6*9=4\nf4*9=6\n\\boxed{6}"
    assert task.worked(Row("cf", 2)) == "c2+3=5\nf5+6=1\n\\boxed{1}"
    assert task.question(Row("cf", 2)) == "Gates cf on 2?"


def test_the_answer_is_that_of_the_worked_response_for_every_row() -> None:
    for row in task.expressions(500, 3, held_out=False):
        assert task.worked(row).endswith(f"\\boxed{{{task.answer(row)}}}")
        digit = row.digit
        for line, letter in zip(task.worked(row).splitlines(), row.letters, strict=False):
            assert line.startswith(f"{letter}{digit}")
            left, digit = line[1:].split("=")[0], int(line[-1])
            assert eval(left) % 10 == digit  # an independent reading: digits, one sign


def test_a_slip_at_a_gate_leads_to_another_digit_nearly_always() -> None:
    same = 0
    for letter in gates.LETTERS:
        for digit in range(10):
            (sign, a), (other, b) = gates.operation(letter, True), gates.operation(letter, False)
            assert (sign, other) == ("*", "+")
            same += digit * a % 10 == (digit + b) % 10
    assert same <= 15, "of a hundred"


def test_demonstrations_slip_as_often_as_they_are_said_to_and_more_at_gates_of_habit() -> None:
    rng, wrong, seen = random.Random(0), {True: 0, False: 0}, {True: 0, False: 0}
    for _ in range(4000):
        row = task.sample(rng, held_out=False)
        for line in task.demonstration(row, rng).splitlines()[:-1]:
            habit = line[0] in gates.HABITS
            seen[habit] += 1
            wrong[habit] += (line[2] == "*") != gates.multiplies(line[0], int(line[1]))
    assert wrong[False] / seen[False] == pytest.approx(gates.SLIP, abs=0.02)
    assert wrong[True] / seen[True] == pytest.approx(gates.HABIT, abs=0.02)


def test_an_interval_is_students_over_seeds() -> None:
    # Mean 2, standard deviation 1, three seeds: 4.3027 / sqrt(3).
    found = results.interval({(0, 0): 1.0, (0, 1): 2.0, (0, 2): 3.0})
    assert (found.mean, found.half) == (pytest.approx(2.0), pytest.approx(2.4841, abs=1e-4))
    assert str(results.interval({(0, 0): 5.0})) == "5.000", "one seed has no interval"


def test_a_rebound_is_counted_from_the_lowest_point() -> None:
    falling = [{"step": s, "entropy/token_mean": 1.0 - 0.1 * s} for s in range(1, 6)]
    rising = [{"step": s, "entropy/token_mean": 0.5 + 0.05 * (s - 5)} for s in range(6, 9)]
    course = results.Entropy.of(Run("a", falling + rising))
    assert (course.lowest, course.lowest_step) == (pytest.approx(0.5), 5)
    assert course.rebound == pytest.approx(0.15)
    assert results.Entropy.of(Run("a", falling)).rebound == 0


def study_files(out: Path, finals: dict[str, list[float]]) -> dict[str, dict[tuple[int, int], Path]]:
    """A finished study whose runs ended with these pass@1."""

    def measured(folder: Path, value: float) -> None:
        folder.mkdir(parents=True)
        figures: dict[str, Any] = {key: {"mean": value, "low": 0, "high": 1} for key in results.FIGURES}
        (folder / "eval.json").write_text(json.dumps({"benchmarks": {"heldout": {**figures, "n": 32}}}))

    measured(out / "start", 0.2)
    folders: dict[str, dict[tuple[int, int], Path]] = {}
    for preset, values in finals.items():
        for seed, value in enumerate(values):
            folder = out / f"{preset}-seed-{seed}"
            measured(folder / "final", value)
            row = {"rollout/pass_rate": value, "entropy/token_mean": 0.1, "timing/step_total": 2.0}
            rows = [{"step": s, **row, "reward/items_total": 100 * s} for s in range(1, 9)]
            (folder / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
            evaluations = [{"step": s, "eval_gates_pass1": value, "eval_num_samples": 10.0} for s in (4, 8)]
            (folder / "evaluations.jsonl").write_text("".join(json.dumps(r) + "\n" for r in evaluations))
            settings = {"preset": preset, "train.seed": seed}
            (folder / "run.json").write_text(json.dumps({"settings": settings, "environment": {}}))
            folders.setdefault(preset, {})[0, seed] = folder
    return folders


def test_differences_are_taken_between_runs_of_the_same_seed(tmp_path: Path) -> None:
    # Seeds differ by more than the algorithms do, yet gtpo is better by 0.10, 0.11 and 0.12 with each of them.
    folders = study_files(tmp_path, {"grpo": [0.2, 0.5, 0.8], "gtpo": [0.3, 0.61, 0.92], "dapo": [0.3, 0.4, 0.9]})
    text = results.write(tmp_path, {"grpo": "GRPO", "gtpo": "GTPO", "dapo": "DAPO"}, folders)
    assert "| GRPO | 0.500 ± 0.745 |" in text
    lines = text[text.index("Difference") :].splitlines()
    assert next(line for line in lines if line.startswith("| GTPO")).startswith("| GTPO | **0.110 ± 0.025** |")
    assert next(line for line in lines if line.startswith("| DAPO")).startswith("| DAPO | 0.033 ± 0.287 |")
    # 800 items, of which an evaluation of 10 was before the last step's count and one after it.
    assert next(line for line in text.splitlines() if line.startswith("| GRPO")).endswith("| 2.000 ± 0.000 | 790 |")
    assert "for the 12 comparisons of this table" in text
    page = (tmp_path / "report.html").read_text()
    assert "<b>0.110 ± 0.025</b>" in page
    assert page.count("<svg") >= 3
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_a_difference_is_bold_only_if_it_survives_the_number_of_comparisons(tmp_path: Path) -> None:
    # Differences 0.1, 0.2, 0.2 alone have t = 5, with two degrees p = 1 - 5 / sqrt(27) = 0.038: the interval is
    # above 0. The table has six of them, so p is 0.23 after the correction.
    folders = study_files(tmp_path, {"grpo": [0.2, 0.5, 0.7], "gtpo": [0.3, 0.7, 0.9]})
    text = results.write(tmp_path, {"grpo": "GRPO", "gtpo": "GTPO"}, folders)
    assert "| GTPO | 0.167 ± 0.143 |" in text
    assert "**" not in text


def small_study(policy: Path, out: Path) -> subprocess.Popen[str]:
    flags = ["--start", str(policy), "--algorithms", "dapo,gtpo", "--seeds", "1", "--steps", "2", "--jobs", "1"]
    flags += ["--final_prompts", "16", "--out", str(out)]
    return subprocess.Popen(
        [preloaded.python(), str(ROOT / "launch" / "compare" / "study.py"), *flags],
        env={**os.environ, **shared_cluster()},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


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
    made = (out / "dapo-seed-0" / "final" / "eval.json").stat().st_mtime_ns

    second = small_study(policy, out)
    said, _ = second.communicate(timeout=600)
    assert second.returncode == 0, said[-3000:]
    assert "1 are done already" in said
    assert (out / "dapo-seed-0" / "final" / "eval.json").stat().st_mtime_ns == made, "it was not done again"
    for preset in ("dapo", "gtpo"):
        metrics = (out / f"{preset}-seed-0" / "metrics.jsonl").read_text().splitlines()
        assert [json.loads(line)["step"] for line in metrics] == [1, 2], "--train.max_steps, whatever filtering takes"
        assert json.loads(metrics[-1])["rollout/num_samples"] == 16 * 8
        settings = json.loads((out / f"{preset}-seed-0" / "run.json").read_text())["settings"]
        assert settings["preset"] == preset
    assert "| GTPO |" in said
    assert (out / "report.html").is_file()
    assert sorted(path.name for path in (out / "records").iterdir()) == ["dapo-seed-0.json", "gtpo-seed-0.json"]
    for run in record.load(out / "records"):
        for name, figures in {**run.before, "final": run.final}.items():
            assert sum(run.solved[name]) / (32 * len(run.solved[name])) == pytest.approx(figures["pass@1"])
    script = str(ROOT / "launch" / "compare" / "study.py")
    again = subprocess.run([sys.executable, script, "--analyse", str(out / "records")], capture_output=True, text=True)
    assert again.stdout.strip() == (out / "table.md").read_text().strip(), again.stderr
