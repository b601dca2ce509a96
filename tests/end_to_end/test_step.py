"""A small step of the bench without a model, in the real loop."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "benchmarks" / "bench_step.py"


@pytest.mark.engine
def test_a_step_without_a_model_sends_little_more_than_its_sequences_through_ray() -> None:
    sizes = {"arms": "gtpo", "prompts": 4, "n": 4, "shortest": 20, "longest": 50, "vocabulary": 20_000}
    command = [sys.executable, str(BENCH), *(f"--{name}={value}" for name, value in sizes.items())]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-4000:]
    (row,) = [line for line in ran.stdout.splitlines() if line.startswith("| `gtpo` |")]
    stored, spilled = re.findall(r"(\d+) \((\d+)\) \|$", row)[0]
    # A prompt has 200 tokens, and a token ids and two masks of eight bytes each, twice. The tokenizer alone has a MB.
    assert int(stored) <= 1
    assert int(spilled) == 0
