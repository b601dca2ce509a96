"""LUFFY's policy shaping of the guide's tokens, with the interface of OpenRLHF's PolicyLoss."""

from typing import Any

import torch
from openrlhf.trainer.ppo_utils.experience import Experience

from openrlhf_gtpo.algorithms.mixed_policy import shaped_log_ratio


class ShapedGuideLoss(torch.nn.Module):
    """Wraps a loss so that the guide's responses have f(r) = r / (r + gamma) in place of the ratio r.

    f(r) is below 1, so a positive advantage is never clipped, as in LUFFY (arXiv 2504.14945). A negative advantage is
    clipped where f(r) is below 1 - clip_eps_low, as on the policy's own responses.

    Attributes:
        guide: (N,) bool, which responses of the next call are the guide's.
    """

    guide: torch.Tensor

    def __init__(self, loss: torch.nn.Module, gamma: float) -> None:
        super().__init__()
        self.loss = loss
        self.gamma = gamma

    def see(self, experience: Experience) -> None:
        """Take from the next call's micro-batch which responses are the guide's."""
        self.guide = torch.stack(list(experience.info["guide/share"])).flatten() > 0
        if see := getattr(self.loss, "see", None):
            see(experience)

    def forward(
        self,
        log_probs: torch.Tensor,
        old_log_probs: torch.Tensor,
        advantages: torch.Tensor,
        action_mask: torch.Tensor | None = None,
        rollout_log_probs: torch.Tensor | None = None,
        **batch: Any,
    ) -> Any:
        """As the wrapped loss: the same arguments, shapes (N, T) and results."""
        guide = self.guide.to(log_probs.device)[:, None]
        shaped = shaped_log_ratio(log_probs - old_log_probs, self.gamma)
        if rollout_log_probs is not None:
            rollout_log_probs = torch.where(guide, 0.0, rollout_log_probs)
        return self.loss(
            torch.where(guide, shaped, log_probs),
            torch.where(guide, 0.0, old_log_probs),
            advantages,
            action_mask=action_mask,
            rollout_log_probs=rollout_log_probs,
            **batch,
        )
