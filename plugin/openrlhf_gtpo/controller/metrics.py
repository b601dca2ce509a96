"""The metrics of a step: statistics of one rollout batch.

Names are ``subject/metric``; a class is ``correct`` or ``wrong``. The names are the same in tensorboard, wandb and
metrics.jsonl."""

from collections.abc import Mapping
from typing import Any

import torch

from openrlhf_gtpo.algorithms.reductions import per_group, positions, spread
from openrlhf_gtpo.batch import RolloutBatch

GAP = "mismatch/logprob_gap"
WIDER, NOISE = 3, 0.005
"""A gap so many times that of a run's first step, and above this, in nats, is no rounding."""
NOTICEABLE = 0.001
"""A difference of shaped rewards that is no rounding: a hundredth of what GTPO's default alpha2 gives a token."""
ROWS = 256
"""Responses at a time where a whole batch would be copied."""


def rollout_metrics(batch: RolloutBatch) -> dict[str, float]:
    """Statistics of a rollout batch, over the policy's own responses.

    Returns:
        Metric name -> value. A class without tokens (no wrong response, say) has no metrics. ``entropy/token_*`` are
        over tokens; ``entropy/response_mean`` is the mean over responses of each response's mean.
    """
    own = batch.counted
    entropy, mask, group, advantages = batch.entropy[own], batch.mask[own], batch.group[own], batch.advantages[own]
    rollout_logprob, actor_logprob = batch.logprob[own], batch.actor_logprob[own]
    correct = None if batch.correct is None else batch.correct[own]
    shaped_rewards = None if batch.shaped_rewards is None else batch.shaped_rewards[own]
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
        metrics |= spread(f"entropy/{prefix}token_", _taken(entropy, places))
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
            metrics[GAP] = gap.mean().item()
    if correct is not None:
        _, place = group.unique(return_inverse=True)
        share = per_group(correct.float(), place, "mean")
        mixed = (share > 0) & (share < 1)
        metrics |= _best_after_answer(advantages, mask, batch.after_answer[own], place, mixed)
        if shaped_rewards is not None and mixed.any():
            unpunished = shaped_rewards - batch.penalty[own][:, None]
            groups = [place == number for number in mixed.nonzero().flatten()]
            shaped = [_is_shaped(unpunished[one], mask[one], correct[one]) for one in groups]
            metrics["groups/shaped_share"] = sum(shaped) / len(shaped)
        metrics["rollout/pass_rate"] = correct.float().mean().item()
        metrics["groups/all_correct_share"] = (share == 1).float().mean().item()
        metrics["groups/all_wrong_share"] = (share == 0).float().mean().item()
        metrics["groups/uninformative_share"] = metrics["groups/all_correct_share"] + metrics["groups/all_wrong_share"]
    return metrics


def _best_after_answer(
    advantages: torch.Tensor, mask: torch.Tensor, after: torch.Tensor, group: torch.Tensor, informative: torch.Tensor
) -> dict[str, float]:
    """The share of informative groups whose highest advantage is that of a token after the answer that was graded, and
    of none up to it; nothing where no answer's place is known."""
    if not after.any() or not informative.any():
        return {}
    behind, before = (
        per_group(advantages.masked_fill(~tokens, -torch.inf).amax(-1), group, "amax")[informative]
        for tokens in (after, mask & ~after)
    )
    return {"advantage/best_after_answer": (behind > before).float().mean().item()}


def _is_shaped(rewards: torch.Tensor, mask: torch.Tensor, correct: torch.Tensor) -> bool:
    """Whether shaped rewards (G, T) of one class differ somewhere between responses, at one of their own positions."""
    position = positions(mask)  # what is no token goes to a column of its own
    for rows in (correct, ~correct):
        nothing = rewards.new_zeros(int(rows.sum()), mask.shape[1] + 1)
        high = (nothing - torch.inf).scatter(1, position[rows], rewards[rows])[:, :-1].amax(0)
        low = (nothing + torch.inf).scatter(1, position[rows], rewards[rows])[:, :-1].amin(0)
        if (high - low > NOTICEABLE).any():
            return True
    return False


def _extent(metrics: dict[str, float], prefix: str, values: torch.Tensor) -> None:
    """Add ``{prefix}mean``, ``{prefix}std``, ``{prefix}min`` and ``{prefix}max``."""
    metrics[f"{prefix}mean"] = values.mean().item()
    metrics[f"{prefix}std"] = values.std(correction=0).item()
    metrics[f"{prefix}min"] = values.min().item()
    metrics[f"{prefix}max"] = values.max().item()


def _taken(values: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    return values.flatten().index_select(0, places)


def weights_differ(step: int, gap: float, first: float) -> str | None:
    """A warning where the gap of log-probabilities has grown beyond rounding; None where it has not. How wide rounding
    makes it depends on model and precision, so it is compared with the same run's.

    Args:
        step: of the gap.
        gap: ``mismatch/logprob_gap``.
        first: that of the run's first step, before any update was sent to the engines.
    """
    if gap <= max(WIDER * first, NOISE):
        return None
    return (
        f"warning: {GAP} is {gap:.3f} in step {step} and was {first:.3f} in the first: the engines may not have the "
        "policy's weights; look at its curve, and stop the run if it rises on"
    )


def progress_line(step: int, metrics: Mapping[str, Any]) -> str:
    """One line for people: ``step 12  reward 0.41  entropy 0.121  length 14.2  1.6 s``."""
    parts = [f"step {step:<4d}"]
    for label, name, form in (
        ("reward", "rollout/reward_mean", ".3f"),
        ("entropy", "entropy/token_mean", ".3f"),
        ("length", "rollout/response_length_mean", ".1f"),
        ("uninformative groups", "groups/uninformative_share", ".2f"),
        ("shaped", "groups/shaped_share", ".2f"),
        ("dropped groups", "reward/dropped_groups", ".0f"),
    ):
        if name in metrics and (name != "reward/dropped_groups" or metrics[name]):
            parts.append(f"{label} {metrics[name]:{form}}")
    if "timing/step_total" in metrics:
        parts.append(f"{metrics['timing/step_total']:.1f} s")
    return "  ".join(parts)
