"""Runs in the controller: writes some groups of each step, token by token, for the report's token view."""

import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from openrlhf.trainer.ppo_utils.experience import Experience

from openrlhf_gtpo.algorithms.groups import per_group
from openrlhf_gtpo.controller.rollouts_file import thinned
from openrlhf_gtpo.controller.whole_batch import WholeBatch

__all__ = ["save_rollouts"]


def save_rollouts(
    path: Path,
    step: int,
    most: int,
    experiences: Sequence[Experience],
    batch: WholeBatch,
    *,
    correct: torch.Tensor | None,
    advantages: torch.Tensor,
    shaped_rewards: torch.Tensor | None,
    decode: Callable[[list[int]], str],
) -> None:
    """Append groups to a file, one response a line. Groups with both correct and wrong responses come first.
    A file that has become too large loses steps, which a line on standard output says.

    Args:
        path: rollouts.jsonl.
        step: the global step.
        most: number of groups to write.
        experiences: the micro-batches, for prompts, labels and tokens.
        batch: the micro-batches joined.
        correct: (N,) bool, or None where scores are not binary.
        advantages: (N, T) float.
        shaped_rewards: (N, T) float, or None.
        decode: the text of token ids.
    """
    real = ~batch.is_filler
    sizes = batch.group[real].bincount()
    informative = torch.zeros_like(sizes, dtype=torch.bool)
    if correct is not None:
        hits = per_group(correct[real].long(), batch.group[real])
        informative = (hits > 0) & (hits < sizes)
    chosen = informative.long().argsort(descending=True, stable=True)[:most].tolist()
    place = {int(row): (m, i) for m, rows in enumerate(batch.order) for i, row in enumerate(rows)}
    text_of = functools.cache(lambda token: decode([token]))  # most tokens occur many times
    with path.open("a") as file:
        for group in chosen:
            for row in (batch.group == group).nonzero().flatten().tolist():
                m, i = place[row]
                experience, mask = experiences[m], batch.mask[row]
                tokens = experience.sequences[i, 1:][mask[: experience.action_mask.shape[1]]].tolist()
                line = {
                    "step": step,
                    "group": group,
                    "prompt": experience.prompts[i],
                    "label": experience.labels[i],
                    "correct": None if correct is None else bool(correct[row]),
                    "guide": bool(batch.is_guide[row]),
                    "tokens": [text_of(token) for token in tokens],
                    "entropy": _significant(batch.entropy[row][mask]),
                    "shaped_reward": None if shaped_rewards is None else _significant(shaped_rewards[row][mask]),
                    "advantage": _significant(advantages[row][mask]),
                }
                file.write(json.dumps(line) + "\n")
    if said := thinned(path):
        print(said, flush=True)


def _significant(values: torch.Tensor) -> list[float]:
    """Rounded to float32's seven digits. Fixed decimals would lose small entropies, whose inverse is used."""
    return [float(f"{value:.7g}") for value in values.tolist()]
