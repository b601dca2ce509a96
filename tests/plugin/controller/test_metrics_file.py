"""metrics.jsonl over interruptions: a step has one line, that of the run that counts."""

import json
from pathlib import Path

import torch

from openrlhf_gtpo.controller.files import StepsFile


def steps(path: Path) -> list[int]:
    return [json.loads(line)["step"] for line in path.read_text().splitlines()]


def test_a_run_from_the_start_moves_the_file_of_an_earlier_run_aside(tmp_path: Path) -> None:
    file = StepsFile(tmp_path / "metrics.jsonl")
    file.write(1, {"nan": float("nan"), "text": "x", "tensor": torch.tensor(2.0), "many": torch.zeros(2)})
    line = json.loads(file.path.read_text())
    assert (line["nan"], line["tensor"]) == (None, 2.0)
    assert not {"text", "many"} & set(line)
    StepsFile(tmp_path / "metrics.jsonl").begin(0)
    assert not file.path.exists()
    (aside,) = tmp_path.glob("metrics.*.jsonl")
    assert steps(aside) == [1]


def test_a_resumed_run_takes_out_the_steps_that_it_does_again_and_lines_that_no_run_wrote(tmp_path: Path) -> None:
    file = StepsFile(tmp_path / "metrics.jsonl")
    for step in range(1, 3):
        file.write(step, {"a": float(step)})
    with file.path.open("a") as handle:
        # Of another writer; and in the end a kill in the middle of a write.
        handle.write('rubbish\n[3]\n{"step":3,"a":1}\n{"step": 4, "a": 1}\n{"step": 5, "a"')
    file.begin(3)
    assert steps(file.path) == [1, 2, 3]
    file.write(4, {"a": 0.0})
    assert steps(file.path) == [1, 2, 3, 4]
