"""GRPO-S's objective, with the interface of OpenRLHF's PolicyLoss.

GTPO needs no loss of its own: Eq. 7 of the paper (Tan et al., arXiv 2508.04349) is OpenRLHF's PolicyLoss with the
token mean. GRPO-S has one ratio and one clip per response (Eq. 10, 11).
"""

import torch
from openrlhf.models.loss import PolicyLoss

from openrlhf_gtpo.algorithms.mixed_policy import LOG_RATIO_BOUND
from openrlhf_gtpo.host import overrides


@overrides("forward")
class SequenceRatioLoss(PolicyLoss):
    """Clipped objective on one ratio per response, the arithmetic mean of its token ratios (Eq. 10, 11; negated).

        ratio_i = mean over t of exp(log_probs_it - old_log_probs_it)
        loss = mean over i of -min(ratio_i * A_i, clip(ratio_i, 1 - clip_eps_low, 1 + clip_eps_high) * A_i)

    GSPO's ratio is the geometric mean instead. The advantage A_i is the mean of the response's advantages, which are
    all equal in GRPO-S. With dual_clip = c, a negative A_i costs at most c * |A_i|.

    Takes the arguments of PolicyLoss. token_level_loss has no effect: the mean is over responses that have tokens.
    """

    @classmethod
    def like(cls, loss: PolicyLoss) -> "SequenceRatioLoss":
        """One with all attributes of OpenRLHF's loss, whose names depend on its version."""
        new = cls()
        # PolicyLoss has no parameters or buffers; attributes with an underscore are nn.Module's own.
        new.__dict__.update({name: value for name, value in vars(loss).items() if not name.startswith("_")})
        return new

    def forward(
        self,
        log_probs: torch.Tensor,
        old_log_probs: torch.Tensor,
        advantages: torch.Tensor,
        action_mask: torch.Tensor | None = None,
        rollout_log_probs: torch.Tensor | None = None,
        dp_size: int = 1,
        batch_num_tokens: torch.Tensor | float | None = None,
        global_batch_size: torch.Tensor | float | None = None,
    ) -> tuple[torch.Tensor | None, ...]:
        """GRPO-S's loss and clip ratio, in the tuple that PolicyLoss returns.

        Args:
            log_probs: (N, T) of the policy in training; the gradient flows through it.
            old_log_probs: (N, T) of the rollout policy.
            advantages: (N, T), constant along a response.
            action_mask: (N, T), 1 on response tokens; by default all ones.
            rollout_log_probs: (N, T), passed on to PolicyLoss.
            dp_size: data-parallel ranks, over which the gradient will be averaged.
            batch_num_tokens: passed on to PolicyLoss.
            global_batch_size: number of non-empty responses over all ranks and micro-batches of the step, the divisor
                of the sum; by default their number in this call.

        Returns:
            The scalar loss, the share of non-empty responses whose ratio was clipped, and the rest as PolicyLoss
            gives it, 5 values in all.
        """
        mask = torch.ones_like(log_probs) if action_mask is None else action_mask
        rest = super().forward(
            log_probs, old_log_probs, advantages, mask, rollout_log_probs, dp_size, batch_num_tokens, global_batch_size
        )[2:]

        on = mask.bool()
        length = on.sum(dim=1)
        tokens = length.clamp(min=1)
        log_ratio = torch.where(on, log_probs - old_log_probs, 0.0).clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND)
        ratio = torch.where(on, log_ratio.exp(), 0.0).sum(dim=1) / tokens  # (N,)
        advantage = torch.where(on, advantages, 0.0).sum(dim=1) / tokens  # (N,)

        unclipped = ratio * advantage
        clipped = ratio.clamp(1 - self.clip_eps_low, 1 + self.clip_eps_high) * advantage
        objective = torch.minimum(unclipped, clipped)
        if self.dual_clip is not None:
            objective = torch.where(advantage < 0, objective.maximum(self.dual_clip * advantage), objective)

        # A response without tokens has ratio and advantage 0: it adds nothing to the sums and is not counted.
        responses = (length > 0).sum().clamp(min=1)
        total = -objective.sum()
        loss = total / responses if global_batch_size is None else total / global_batch_size * dp_size
        clip_ratio = (clipped < unclipped).sum() / responses
        return loss, clip_ratio, *rest
