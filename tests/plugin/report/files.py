"""What a run leaves in its folder, made by hand."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["ROLLOUTS", "lines", "measured", "record", "response", "run"]


def response(correct: bool | None, tokens: list[str], **changes: Any) -> dict[str, Any]:
    n = len(tokens)
    sign = 1.0 if correct else -1.0
    return {
        "step": 1,
        "group": 3,
        "prompt": "What is 6*7?",
        "label": "42",
        "correct": correct,
        "tokens": tokens,
        "entropy": [0.5 * t for t in range(n)],
        "shaped_reward": [sign] * n,
        "advantage": [sign * (t + 1) for t in range(n)],
        **changes,
    }


ROLLOUTS = [
    response(True, ["6", "*", "7", "\n", "42"]),
    response(True, ["42"]),
    response(False, ["<script>alert(1)</script>", "</script>", "41"]),
]


def lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def run(folder: Path, rollouts: list[dict[str, Any]] | None = None, steps: int = 3) -> Path:
    folder.mkdir(parents=True)
    metrics = [{"step": s, "rollout/pass_rate": s / 10, "entropy/token_mean": 1 / s} for s in range(1, steps + 1)]
    lines(folder / "metrics.jsonl", metrics)
    if rollouts is not None:
        lines(folder / "rollouts.jsonl", rollouts)
    return folder


def record(folder: Path, **settings: Any) -> Path:
    given = {"preset": "gtpo", "train.seed": 0, **settings}
    (folder / "run.json").write_text(json.dumps({"settings": given, "environment": {"vllm": "0.29.0"}}))
    return folder


def measured(folder: Path, benchmarks: Mapping[str, Mapping[str, Any]]) -> None:
    """An eval.json whose figures are given as (mean, low, high), or as a number for what is counted."""
    folder.mkdir(parents=True)
    told = {
        name: {
            key: dict(zip(("mean", "low", "high"), value, strict=True)) if isinstance(value, tuple) else value
            for key, value in figures.items()
        }
        for name, figures in benchmarks.items()
    }
    (folder / "eval.json").write_text(json.dumps({"model": "m", "benchmarks": told}))
