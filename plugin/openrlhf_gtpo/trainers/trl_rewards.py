"""What `openrlhf_gtpo.trainers.trl` reads out of rewards and vLLM's log-probabilities; imports no TRL."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from openrlhf_gtpo.errors import SettingsError, UserError


def place_of(correct: str, names: Sequence[str], weights: torch.Tensor) -> int:
    """The place of the reward function that says what is correct; the first where ``correct`` is empty.

    Raises:
        SettingsError: there is no such function, or its weight is not 1.
    """
    if correct and correct not in names:
        raise SettingsError(f"correct={correct!r} names no reward function: name one of {', '.join(names)}.")
    place = names.index(correct or names[0])
    if weights[place] != 1:
        raise SettingsError(
            f"reward_weights={weights.tolist()} weighs {names[place]}, which says what is correct: give it the weight "
            "1.0; alpha1 and alpha2, options of the shape, weigh correctness and entropy."
        )
    return place


def verdicts(
    rewards: torch.Tensor, weights: torch.Tensor, names: Sequence[str], place: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Take TRL's rewards, (N, F) float with NaN where a function said None, apart.

    Returns:
        (N,) bool, whether a response is correct; (N,) bool, whether there is a verdict; (N,) float, the penalty: the
        other functions' rewards, weighted.

    Raises:
        ValueError: a verdict is neither 0 nor 1 nor NaN.
    """
    verdict, others = rewards[:, place], torch.arange(len(names), device=rewards.device) != place
    judged = ~verdict.isnan()
    wrong = verdict[judged & (verdict != 0) & (verdict != 1)]
    if len(wrong):
        raise ValueError(
            f"The reward function {names[place]} gave {wrong[0].item():g}, and GTPO and GRPO-S need 0 (wrong), "
            "1 (correct) or None: name the function that says so with correct=; the others become penalties."
        )
    return verdict == 1, judged, (rewards * weights.to(rewards) * others).nansum(1)


def taken_apart(pairs: Sequence[Sequence[Sequence[Any]]]) -> tuple[torch.Tensor, list[list[list[float]]]]:
    """Take the entropies out of what vLLM's hooked sampler gave as log-probabilities.

    Args:
        pairs: for each response and token, log-probability and entropy in either order: TRL sorts them by rank.

    Returns:
        (B, T) float32, nats, 0 after a response's end; and the log-probabilities, a list of one for each token.

    Raises:
        UserError: a token has no entropy.
    """
    if not all(len(pair) == 2 and None not in pair and max(pair) >= 0 for row in pairs for pair in row):
        raise UserError(
            "vLLM sampled a token without an entropy: a vLLM whose sampler the hook covers gives one (the table of "
            "versions in docs/vllm_versions.md), unless the policy's logits are NaN."
        )
    # log-probability <= 0 <= entropy
    entropy = pad_sequence([torch.tensor([max(pair) for pair in row]) for row in pairs], batch_first=True)
    return entropy, [[[min(pair)] for pair in row] for row in pairs]
