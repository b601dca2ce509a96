"""metrics.jsonl over interruptions: a step has one line, that of the run that counts. And how large rollouts.jsonl
becomes."""

import json
import tracemalloc
from pathlib import Path

import pytest

from openrlhf_gtpo.controller.metrics import MetricsFile
from openrlhf_gtpo.controller.rollouts_file import expected, thinned
from openrlhf_gtpo.settings import Settings


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


def test_of_a_large_file_no_more_than_a_line_is_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "rollouts.jsonl"
    long = ["x" * 1000] * 500
    with path.open("w") as file:
        for step in range(1, 41):
            file.write(json.dumps({"step": step, "group": 0, "tokens": long}) + "\n")
    tracemalloc.start()
    MetricsFile(path).begin(20)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert steps(path) == list(range(1, 21))
    assert peak < 5e6, f"{peak:,} bytes for a file of 20 MB whose lines have 0.5"


def test_a_line_is_read_by_its_step_wherever_that_stands(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"a": 1, "step": 1}\n{"step": 2}\nrubbish\n[3]\n{"step":3,"a":1}\n{"step": 4, "a": 1}\n')
    MetricsFile(path).begin(3)
    assert steps(path) == [1, 2, 3]


def rollouts(path: Path, count: int) -> Path:
    """Steps of 100 bytes each, of two lines."""
    with path.open("w") as file:
        for step in range(1, count + 1):
            for group in (0, 1):
                line = json.dumps({"step": step, "group": group, "tokens": ""})
                file.write(line.replace('""', f'"{"x" * (49 - len(line))}"') + "\n")
    return path


def test_a_file_of_rollouts_within_its_bound_is_left_alone(tmp_path: Path) -> None:
    path = rollouts(tmp_path / "rollouts.jsonl", 10)
    assert path.stat().st_size == 1000
    assert thinned(path, most=1000) is None
    assert len(steps(path)) == 20


def test_a_file_of_rollouts_that_is_too_large_keeps_steps_spread_over_the_run(tmp_path: Path) -> None:
    path = rollouts(tmp_path / "rollouts.jsonl", 11)
    said = thinned(path, most=1000)
    assert said is not None
    assert "one in 4." in said
    assert steps(path) == [1, 1, 5, 5, 9, 9], "1, 3, ... 11 would take 600 bytes, more than half"
    path.write_text('{"step": 1, "tokens": "xxxxxxxxxxxxxxx"}\n{"step": 2, "to')
    assert thinned(path, most=30) is not None
    assert steps(path) == [1], "the first step stays, whatever its size, and a line that was cut off goes"


@pytest.mark.parametrize(
    ("changed", "sizes"),
    [
        ({}, "44 MB, so 9.2 GB in 210 steps"),
        ({"train.max_steps": None}, "44 MB;"),
        ({"rollout.max_new_tokens": None}, "66 MB,"),
        ({"shaping.save_rollouts": 500}, "352 MB,"),
    ],
)
def test_the_size_is_known_before_a_run(changed: dict[str, int | None], sizes: str) -> None:
    """16 x 16 x 4,096 tokens of 42 bytes are 44.0e6 bytes."""
    flags = {"shaping.save_rollouts": 16, "rollout.batch_size": 128, "rollout.n_samples_per_prompt": 16}
    flags |= {"rollout.max_new_tokens": 4096, "data.max_len": 6144, "train.max_steps": 210}
    assert sizes in (expected(Settings({**flags, **changed})) or "")
    assert expected(Settings({**flags, "shaping.save_rollouts": 0})) is None
