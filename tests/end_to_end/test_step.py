"""A small step of the bench without a model, in the real loop: what goes where, and how often."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "tests" / "benchmarks" / "bench_step.py"
PROMPTS, N, STEPS = 4, 4, 2

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Of two steps of gtpo; the first is not counted."""
    folder = tmp_path_factory.mktemp("step")
    flags = {
        "arms": "gtpo",
        "prompts": PROMPTS,
        "n": N,
        "steps": STEPS,
        "shortest": 20,
        "longest": 50,
        "vocabulary": 20_000,
        "out": folder,
    }
    command = [sys.executable, str(BENCH), *(f"--{name}={value}" for name, value in flags.items())]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-4000:]
    assert "| **step** |" in ran.stdout
    return json.loads((folder / "figures.json").read_text())["gtpo"]


def test_every_phase_is_measured_in_every_process(figures: dict[str, Any]) -> None:
    processes = {"controller", "rollout actor", "policy", "driver", "reward service", "Ray"}
    assert list(figures["phases"]) == [
        *("dispatch", "generate", "collect", "put together", "forward", "advantages", "metrics"),
        *("to the policy", "train", "weights", "logs", "rest"),
    ]
    for name, row in figures["phases"].items():
        assert set(row["processes"]) == processes, name
        assert all(cell["rss_mb"] >= cell["own_mb"] > 0 for cell in row["processes"].values()), name
    assert len(figures["step_seconds"]) == STEPS
    assert figures["seconds"] == pytest.approx(sum(row["seconds"] for row in figures["phases"].values()))
    assert figures["requests"]["number"] == PROMPTS * N


def test_no_process_unpickles_a_tokenizer_more_than_once(figures: dict[str, Any]) -> None:
    assert set(figures["unpickled_tokenizers"].values()) <= {1}, "and a step has as many prompts as it likes"


def test_what_goes_through_rays_store_is_the_sequences_and_little_more(figures: dict[str, Any]) -> None:
    # Token ids and two masks of eight bytes each go to the policy twice, with a few numbers of four bytes.
    assert figures["store_mb"] * 1e6 < 100 * figures["sequence_tokens"]
    assert figures["spilled_mb"] == 0


def test_no_reward_fails(figures: dict[str, Any]) -> None:
    rewards = figures["rewards"]
    assert rewards["reward/items_total"] == PROMPTS * N * STEPS
    assert rewards["reward/retries_total"] == rewards["reward/failed_responses"] == 0
