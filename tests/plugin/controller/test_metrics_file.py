"""metrics.jsonl over interruptions: a step has one line, that of the run that counts."""

import json
from pathlib import Path

from openrlhf_gtpo.controller.metrics import MetricsFile


def steps(path: Path) -> list[int]:
    return [json.loads(line)["step"] for line in path.read_text().splitlines()]


def test_a_run_from_the_start_moves_the_file_of_an_earlier_run_aside(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path / "metrics.jsonl")
    file.write(1, {"a": 1.0})
    MetricsFile(tmp_path / "metrics.jsonl").begin(0)
    assert not file.path.exists()
    (aside,) = tmp_path.glob("metrics.*.jsonl")
    assert steps(aside) == [1]


def test_a_resumed_run_takes_out_the_steps_that_it_does_again(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path / "metrics.jsonl")
    for step in range(1, 6):
        file.write(step, {"a": float(step)})
    with file.path.open("a") as handle:
        handle.write('{"step": 6, "a"')  # a kill in the middle of a write
    file.begin(3)
    assert steps(file.path) == [1, 2, 3]
    file.write(4, {"a": 0.0})
    assert steps(file.path) == [1, 2, 3, 4]


def test_a_file_that_is_not_there_yet_needs_no_preparation(tmp_path: Path) -> None:
    MetricsFile(tmp_path / "new" / "metrics.jsonl").begin(3)
    assert list((tmp_path / "new").iterdir()) == []
