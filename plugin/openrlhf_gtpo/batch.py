"""Runs in the controller: joins OpenRLHF's micro-batches into one rollout batch, and splits results again.

OpenRLHF pads and orders micro-batches in its own way. Our algorithms need whole groups, so they work on (N, T) tensors
in rollout order, group after group."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from openrlhf.trainer.ppo_utils.experience import Experience

from openrlhf_gtpo.errors import UserError


class NotBinary(UserError):
    """A score is neither that of a correct nor that of a wrong response."""


@dataclass
class WholeBatch:
    """A rollout batch in rollout order, group after group: N responses, T columns (the tokens after the first of the
    sequence)."""

    step: int
    """The global step that it is of."""
    experiences: Sequence[Experience]
    """OpenRLHF's micro-batches, which are sent to the policy."""
    order: list[torch.Tensor]
    """For each micro-batch, the rows of its responses, (B,) int."""
    entropy: torch.Tensor  # (N, T) nats, of the distribution that the token was sampled from, 0 off the mask
    mask: torch.Tensor  # (N, T) bool
    rollout_logprob: torch.Tensor  # (N, T) by vLLM: the policy's own, or the guide's
    actor_logprob: torch.Tensor  # (N, T) by the policy actor
    scores: torch.Tensor | None  # (N,)
    rewards: torch.Tensor  # (N,) before any penalty
    response_length: torch.Tensor  # (N,) tokens, as OpenRLHF counts them
    truncated: torch.Tensor  # (N,) float, 1 where a response was cut off
    after_answer: torch.Tensor  # (N, T) bool, tokens after the answer that was graded
    group: torch.Tensor  # (N,) int
    penalty: torch.Tensor  # (N,) to be added to rewards
    correct: torch.Tensor | None = None
    """(N,) bool; None where scores are not binary and nothing needs them to be."""
    counted: torch.Tensor | None = None
    """(N,) bool, the responses that metrics are of; None for all."""
    second: torch.Tensor | None = None
    """(N,) bool, the responses of a guide's second batch; None without a guide."""
    filler: torch.Tensor | None = None
    """(N,) bool, the responses that only fill an update, with a guide; None without."""
    guide: torch.Tensor | None = None
    """(N,) bool, the guide's responses; None without a guide."""
    advantages: torch.Tensor = field(init=False)  # (N, T), once an estimator made them
    shaped_rewards: torch.Tensor | None = None
    """(N, T), where the estimator shapes rewards token by token."""
    metrics: dict[str, float] = field(default_factory=dict)
    """What was measured of this batch, by names that docs/metrics.md describes."""

    @property
    def of_metrics(self) -> torch.Tensor | slice:
        """An index of the responses that metrics are of. A slice copies nothing."""
        return slice(None) if self.counted is None else self.counted

    def rows(self, values: torch.Tensor) -> list[torch.Tensor]:
        """Split an (N,) tensor into each micro-batch's (B,)."""
        return [values[rows] for rows in self.order]

    def columns(self, values: torch.Tensor) -> list[torch.Tensor]:
        """Split an (N, T) tensor into each micro-batch's (B, A), with its width A."""
        widths = [experience.action_mask.shape[1] for experience in self.experiences]
        return [values[rows, :width] for rows, width in zip(self.order, widths, strict=True)]

    def together(self, parts: Sequence[torch.Tensor]) -> torch.Tensor:
        """Join the micro-batches' (B, A) into one float32 (N, T)."""
        joined = torch.zeros_like(self.entropy)
        for part, rows in zip(parts, self.order, strict=True):
            joined[rows, : part.shape[1]] = part.float()
        return joined


def whole_batch(experiences: Sequence[Experience], group_size: int, step: int) -> WholeBatch:
    """Join OpenRLHF's micro-batches, and remove from ``info`` the entries that were only transported in it.

    Args:
        experiences: micro-batches as `RemoteExperienceMaker.make_experience` leaves them: each padded to its own
            width, in any order. ``experience.index`` has each response's place in the rollout.
        group_size: G, responses per prompt.
        step: the global step.
    """
    order = [torch.tensor(experience.index) for experience in experiences]
    n = sum(len(rows) for rows in order)
    width = max(experience.action_mask.shape[1] for experience in experiences)
    batch = WholeBatch(
        step=step,
        experiences=experiences,
        order=order,
        entropy=torch.zeros(n, width),
        mask=torch.zeros(n, width, dtype=torch.bool),
        rollout_logprob=torch.zeros(n, width),
        actor_logprob=torch.zeros(n, width),
        scores=torch.zeros(n) if all(experience.scores is not None for experience in experiences) else None,
        rewards=torch.zeros(n),
        response_length=torch.zeros(n),
        truncated=torch.zeros(n),
        after_answer=torch.zeros(n, width, dtype=torch.bool),
        group=torch.arange(n) // group_size,
        penalty=torch.zeros(n),
    )
    for experience, rows in zip(experiences, order, strict=True):
        columns = slice(experience.action_mask.shape[1])
        batch.mask[rows, columns] = experience.action_mask.bool()
        batch.entropy[rows, columns] = experience.info.pop("entropy")
        batch.rollout_logprob[rows, columns] = experience.info.pop("logprob")
        token = torch.arange(1, experience.action_mask.shape[1] + 1)
        after = token >= experience.info.pop("answer_end").flatten()[:, None]
        batch.after_answer[rows, columns] = after & experience.action_mask.bool()
        batch.actor_logprob[rows, columns] = experience.action_log_probs.float()
        batch.rewards[rows] = experience.rewards.flatten().float()
        batch.response_length[rows] = experience.response_length.flatten().float()
        batch.truncated[rows] = experience.truncated.flatten().float()
        if batch.scores is not None:
            batch.scores[rows] = experience.scores.flatten().float()
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
