"""Runs in the controller: joins OpenRLHF's micro-batches into one rollout batch, and splits results again.

OpenRLHF pads and orders micro-batches in its own way. Our algorithms need whole groups, so they work on (N, T) tensors
in rollout order, group after group."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from openrlhf.trainer.ppo_utils.experience import Experience

from openrlhf_gtpo.errors import UserError
from openrlhf_gtpo.guide.groups import MARKS

__all__ = ["NotBinary", "WholeBatch", "correctness", "whole_batch"]


class NotBinary(UserError):
    """A score is neither that of a correct nor that of a wrong response."""


@dataclass
class WholeBatch:
    """A rollout batch in rollout order, group after group: N responses, T columns (the tokens after the first of the
    sequence)."""

    order: list[torch.Tensor]
    """For each micro-batch, the rows of its responses, (B,) int."""
    entropy: torch.Tensor  # (N, T) nats, of the distribution that the token was sampled from, 0 off the mask
    mask: torch.Tensor  # (N, T) bool; False on fillers
    rollout_logprob: torch.Tensor  # (N, T) by vLLM: the policy's own, or the guide's
    actor_logprob: torch.Tensor  # (N, T) by the policy actor
    scores: torch.Tensor | None  # (N,)
    rewards: torch.Tensor  # (N,) before any penalty
    response_length: torch.Tensor  # (N,) tokens, as OpenRLHF counts them
    truncated: torch.Tensor  # (N,) float, 1 where a response was cut off
    group: torch.Tensor  # (N,) int
    is_guide: torch.Tensor  # (N,) bool, the guide's responses
    is_second: torch.Tensor  # (N,) bool, those of the second batch, the policy's and the guide's
    is_filler: torch.Tensor  # (N,) bool

    @property
    def is_policy(self) -> torch.Tensor:
        """(N,) bool, the policy's own responses in the first batch, or in the second if the first has none."""
        own = ~self.is_guide & ~self.is_filler
        return own & ~self.is_second if (own & ~self.is_second).any() else own

    def rows(self, values: torch.Tensor) -> list[torch.Tensor]:
        """Split an (N,) tensor into each micro-batch's (B,)."""
        return [values[rows] for rows in self.order]

    def columns(self, values: torch.Tensor, experiences: Sequence[Experience]) -> list[torch.Tensor]:
        """Split an (N, T) tensor into each micro-batch's (B, A), with its width A."""
        widths = [experience.action_mask.shape[1] for experience in experiences]
        return [values[rows, :width] for rows, width in zip(self.order, widths, strict=True)]

    def together(self, parts: Sequence[torch.Tensor]) -> torch.Tensor:
        """Join the micro-batches' (B, A) into one float32 (N, T)."""
        found = torch.zeros_like(self.entropy)
        for part, rows in zip(parts, self.order, strict=True):
            found[rows, : part.shape[1]] = part.float()
        return found


def whole_batch(experiences: Sequence[Experience], group_size: int) -> WholeBatch:
    """Join OpenRLHF's micro-batches, and remove from ``info`` the entries that were only transported in it.

    Args:
        experiences: micro-batches as `RemoteExperienceMaker.make_experience` leaves them: each padded to its own
            width, in any order. ``experience.index`` has each response's place in the rollout.
        group_size: G, responses per prompt. With a guide it is not used: `MARKS` has each response's group.
    """
    order = [torch.tensor(experience.index) for experience in experiences]
    n = sum(len(rows) for rows in order)
    width = max(experience.action_mask.shape[1] for experience in experiences)
    batch = WholeBatch(
        order=order,
        entropy=torch.zeros(n, width),
        mask=torch.zeros(n, width, dtype=torch.bool),
        rollout_logprob=torch.zeros(n, width),
        actor_logprob=torch.zeros(n, width),
        scores=torch.zeros(n) if all(experience.scores is not None for experience in experiences) else None,
        rewards=torch.zeros(n),
        response_length=torch.zeros(n),
        truncated=torch.zeros(n),
        group=torch.arange(n) // group_size,
        is_guide=torch.zeros(n, dtype=torch.bool),
        is_second=torch.zeros(n, dtype=torch.bool),
        is_filler=torch.zeros(n, dtype=torch.bool),
    )
    for experience, rows in zip(experiences, order, strict=True):
        columns = slice(experience.action_mask.shape[1])
        batch.mask[rows, columns] = experience.action_mask.bool()
        batch.entropy[rows, columns] = experience.info.pop("entropy")
        batch.rollout_logprob[rows, columns] = experience.info.pop("logprob")
        batch.actor_logprob[rows, columns] = experience.action_log_probs.float()
        if MARKS[0] in experience.info:
            group, second, filler = (experience.info.pop(mark) for mark in MARKS[:3])
            batch.group[rows] = group.long()
            batch.is_second[rows], batch.is_filler[rows] = second > 0, filler > 0
            # Stays in ``info``: the loss may need it, and OpenRLHF logs its mean.
            batch.is_guide[rows] = experience.info[MARKS[3]] > 0
        batch.rewards[rows] = experience.rewards.flatten().float()
        batch.response_length[rows] = experience.response_length.flatten().float()
        batch.truncated[rows] = experience.truncated.flatten().float()
        if batch.scores is not None:
            batch.scores[rows] = experience.scores.flatten().float()
    batch.mask &= ~batch.is_filler[:, None]
    return batch


def correctness(scores: torch.Tensor | None) -> torch.Tensor:
    """Which responses are verified as correct, (N,) bool.

    Args:
        scores: (N,), 1 for correct, and 0 or -1 for wrong.

    Raises:
        NotBinary: there are no scores, or other values.
    """
    fix = "make the reward function or service return 'scores' of 0 or 1 beside 'rewards'"
    if scores is None:
        raise NotBinary(f"GTPO and GRPO-S need verified correctness, but the rewards came without scores: {fix}.")
    strange = scores[(scores != 0) & (scores != 1) & (scores != -1)]
    if strange.numel():
        raise NotBinary(f"GTPO and GRPO-S need verified correctness, but a score is {strange[0].item():g}: {fix}.")
    return scores == 1
