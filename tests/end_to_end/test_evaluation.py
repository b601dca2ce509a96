"""An evaluation with the real vLLM and the real reward service."""

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
def test_an_evaluation_repeats_itself_whatever_else_is_asked_and_says_what_it_found(
    policy: Path, tmp_path: Path
) -> None:
    first, second = evaluate(policy, tmp_path / "a", 8), evaluate(policy, tmp_path / "b", 16)
    for done in (first, second):
        assert done.returncode == 0, done.stderr[-3000:]
        assert "nanobind" not in done.stderr, "the engine outlived the evaluation"
        assert "Triton" not in done.stderr
    few, rows = (
        [json.loads(line) for line in (tmp_path / name / "eval.jsonl").read_text().splitlines()] for name in "ab"
    )
    assert rows[:32] == few, "a response does not depend on its company"
    assert [(row["prompt"], row["index"]) for row in rows] == [(p, i) for p in range(16) for i in range(4)]

    result = json.loads((tmp_path / "b" / "eval.json").read_text())["benchmarks"]["train"]
    right = [sum(row["correct"] for row in rows if row["prompt"] == p) for p in range(16)]
    assert abs(result["mean@4"]["mean"] - sum(right) / 64) < 1e-9
    assert abs(result["pass@4"]["mean"] - sum(map(bool, right)) / 16) < 1e-9
    entropy = sum(row["entropy"] * row["tokens"] for row in rows) / sum(row["tokens"] for row in rows)
    assert result["entropy_token_mean"]["mean"] == pytest.approx(entropy)
    assert result["entropy_response_mean"]["mean"] == pytest.approx(sum(row["entropy"] for row in rows) / 64)
    assert entropy > 0
    assert "pass@4" in second.stdout
    assert all(row["verdict"] in ("correct", "wrong", "no_answer", "ambiguous", "too_complex") for row in rows)
