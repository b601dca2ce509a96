"""The metrics of a step: statistics of one rollout batch, and the file that they are written to.

Names are ``subject/metric``; a class is ``correct`` or ``wrong``. The names are the same in tensorboard, wandb and
metrics.jsonl."""

import json
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from openrlhf_gtpo.algorithms.groups import per_group
from openrlhf_gtpo.algorithms.statistics import spread
from openrlhf_gtpo.controller.step_lines import keep_steps, steps_and_lines

ROWS = 256
"""Responses at a time where a whole batch would be copied."""


def rollout_metrics(
    *,
    entropy: torch.Tensor,
    mask: torch.Tensor,
    correct: torch.Tensor | None,
    group: torch.Tensor,
    advantages: torch.Tensor,
    shaped_rewards: torch.Tensor | None,
    rollout_logprob: torch.Tensor,
    actor_logprob: torch.Tensor,
) -> dict[str, float]:
    """Statistics of a rollout batch.

    Args:
        entropy: (N, T) float, nats.
        mask: (N, T), 1 on response tokens.
        correct: (N,) bool, or None where scores are not binary; then there are no metrics by class.
        group: (N,) int, which prompt each response answers.
        advantages: (N, T) float.
        shaped_rewards: (N, T) float, or None with an estimator of OpenRLHF's own.
        rollout_logprob: (N, T) float, of the sampled tokens in vLLM.
        actor_logprob: (N, T) float, of the same in the policy actor.

    Returns:
        Metric name -> value. A class without tokens (no wrong response, say) has no metrics. ``entropy/token_*`` are
        over tokens; ``entropy/response_mean`` is the mean over responses of each response's mean.
    """
    mask = mask.bool()
    length = mask.sum(-1)
    per_response = torch.cat([(h * on).sum(-1) for h, on in zip(entropy.split(ROWS), mask.split(ROWS), strict=True)])
    classes = {"": torch.ones_like(group, dtype=torch.bool)}
    if correct is not None:
        classes |= {"correct_": correct, "wrong_": ~correct}
    metrics: dict[str, float] = {}
    for prefix, rows in classes.items():
        # Taking a tensor's tokens costs more than the metrics: each is taken once, and by places, found once for all.
        places = (mask & rows[:, None]).flatten().nonzero().flatten()
        if not len(places):
            continue
        answered = rows & (length > 0)
        spread(metrics, f"entropy/{prefix}token_", _taken(entropy, places))
        metrics[f"entropy/{prefix}response_mean"] = (per_response[answered] / length[answered]).mean().item()
        learned = _taken(advantages, places)
        _extent(metrics, f"advantage/{prefix}", learned)
        if prefix == "correct_":
            metrics["advantage/correct_negative_share"] = (learned < 0).count_nonzero().item() / len(places)
        elif prefix == "wrong_":
            metrics["advantage/wrong_positive_share"] = (learned > 0).count_nonzero().item() / len(places)
        metrics[f"response_length/{prefix}mean"] = length[rows].float().mean().item()
        if shaped_rewards is not None:
            _extent(metrics, f"shaped_reward/{prefix}", _taken(shaped_rewards, places))
        if not prefix:
            gap = _taken(rollout_logprob, places).sub_(_taken(actor_logprob, places)).abs_()
            metrics["mismatch/logprob_gap"] = gap.mean().item()
    if correct is not None:
        _, place = group.unique(return_inverse=True)
        share = per_group(correct.float(), place, "mean")
        metrics["rollout/pass_rate"] = correct.float().mean().item()
        metrics["groups/all_correct_share"] = (share == 1).float().mean().item()
        metrics["groups/all_wrong_share"] = (share == 0).float().mean().item()
        metrics["groups/uninformative_share"] = metrics["groups/all_correct_share"] + metrics["groups/all_wrong_share"]
    return metrics


def _extent(metrics: dict[str, float], prefix: str, values: torch.Tensor) -> None:
    """Add ``{prefix}mean``, ``{prefix}std``, ``{prefix}min`` and ``{prefix}max``."""
    metrics[f"{prefix}mean"] = values.mean().item()
    metrics[f"{prefix}std"] = values.std(correction=0).item()
    metrics[f"{prefix}min"] = values.min().item()
    metrics[f"{prefix}max"] = values.max().item()


def _taken(values: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    return values.flatten().index_select(0, places)


class MetricsFile:
    """One JSON object a step, appended to a file."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path

    def begin(self, step: int) -> None:
        """Prepare the file for a run that continues after ``step``.

        Args:
            step: 0 for a run from the start: the file of an earlier run is renamed, so that two runs never share one.
                Otherwise the checkpoint's step: later lines are removed, since those steps are done again.
        """
        if not self.path.exists():
            return
        if step == 0:
            self.path.rename(
                self.path.with_name(f"{self.path.stem}.{time.strftime('%Y%m%d-%H%M%S')}{self.path.suffix}")
            )
            return
        keep_steps(self.path, lambda written: written <= step)

    def steps(self) -> set[float]:
        """The steps that the file has."""
        return {step for step, _ in steps_and_lines(self.path)} if self.path.exists() else set()

    def write(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Append one step. Values that are not numbers are left out. JSON has no NaN and no infinity: null is
        written."""
        line: dict[str, Any] = {"step": step, "time": round(time.time(), 3)}
        for name, value in sorted(metrics.items()):  # OpenRLHF's order depends on Python's hashes
            if isinstance(value, torch.Tensor) and value.numel() == 1:
                value = value.item()
            if isinstance(value, (int, float)):
                line[name] = value if math.isfinite(value) else None
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")


def progress_line(step: int, metrics: Mapping[str, Any]) -> str:
    """One line for people: ``step 12  reward 0.41  entropy 0.121  length 14.2  1.6 s``."""
    parts = [f"step {step:<4d}"]
    for label, name, form in (
        ("reward", "rollout/reward_mean", ".3f"),
        ("entropy", "entropy/token_mean", ".3f"),
        ("length", "rollout/response_length_mean", ".1f"),
        ("uninformative groups", "groups/uninformative_share", ".2f"),
        ("dropped groups", "reward/dropped_groups", ".0f"),
    ):
        if name in metrics and (name != "reward/dropped_groups" or metrics[name]):
            parts.append(f"{label} {metrics[name]:{form}}")
    if "timing/step_total" in metrics:
        parts.append(f"{metrics['timing/step_total']:.1f} s")
    return "  ".join(parts)
