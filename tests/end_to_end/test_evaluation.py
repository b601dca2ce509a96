"""An evaluation with the real vLLM and the real reward service, interrupted in between."""

import json
import subprocess
from pathlib import Path

import pytest

from .. import preloaded


def evaluate(policy: Path, out: Path, prompts: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(preloaded.python(), "-c", "import sys; from openrlhf_gtpo.cli import main; sys.exit(main())", "eval"),
            *("--model", str(policy / "model"), "--data", str(policy / "train.jsonl"), "--out", str(out)),
            *("--n", "4", "--k", "1,2,4", "--max_new_tokens", "40", "--device", "cpu", "--max_prompts", str(prompts)),
        ],
        capture_output=True,
        text=True,
        timeout=600,
    )


@pytest.mark.engine
def test_an_evaluation_goes_on_where_it_stopped_and_says_what_it_found(policy: Path, tmp_path: Path) -> None:
    first = evaluate(policy, tmp_path, 8)
    assert first.returncode == 0, first.stderr[-3000:]
    path = tmp_path / "eval.jsonl"
    before = path.read_text().splitlines()
    assert len(before) == 8 * 4
    path.write_text("\n".join(before)[:-30])  # what a kill in the middle of a write leaves

    second = evaluate(policy, tmp_path, 16)
    assert second.returncode == 0, second.stderr[-3000:]
    assert "7 prompts are done already" in second.stderr
    assert "nanobind" not in first.stderr + second.stderr, "the engine outlived the evaluation"
    assert "Triton" not in first.stderr + second.stderr
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert rows[:32] == [json.loads(line) for line in before], "the lost one came back as it was, in other company"
    assert sorted({row["prompt"] for row in rows}) == list(range(16))
    assert len(rows) == 16 * 4

    result = json.loads((tmp_path / "eval.json").read_text())["benchmarks"]["train"]
    right = [sum(row["correct"] for row in rows if row["prompt"] == p) for p in range(16)]
    assert abs(result["mean@4"]["mean"] - sum(right) / 64) < 1e-9
    assert abs(result["pass@4"]["mean"] - sum(map(bool, right)) / 16) < 1e-9
    entropy = sum(row["entropy"] * row["tokens"] for row in rows) / sum(row["tokens"] for row in rows)
    assert result["entropy_token_mean"]["mean"] == pytest.approx(entropy)
    assert result["entropy_response_mean"]["mean"] == pytest.approx(sum(row["entropy"] for row in rows) / 64)
    assert entropy > 0
    assert "pass@4" in second.stdout
    assert all(row["verdict"] in ("correct", "wrong", "no_answer", "ambiguous", "too_complex") for row in rows)
