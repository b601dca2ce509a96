"""Other objectives for the guide's tokens than their clipped ratio, with the interface of OpenRLHF's PolicyLoss."""

from typing import Any

import torch
from openrlhf.trainer.ppo_utils.experience import Experience

from openrlhf_gtpo.algorithms.mixed_policy import shaped_log_ratio


class GuideLoss(torch.nn.Module):
    """Wraps a loss, which gets other log-probabilities on the guide's responses.

    Attributes:
        guide: (N,) bool, which responses of the next call are the guide's.
    """

    guide: torch.Tensor

    def __init__(self, loss: torch.nn.Module) -> None:
        super().__init__()
        self.loss = loss

    def see(self, experience: Experience) -> None:
        """Take from the next call's micro-batch which responses are the guide's."""
        self.guide = torch.stack(list(experience.info["guide/share"])).flatten() > 0
        if see := getattr(self.loss, "see", None):
            see(experience)

    def of_guide(self, log_probs: torch.Tensor, old_log_probs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """What the wrapped loss gets for them on the guide's responses; all are (N, T)."""
        raise NotImplementedError

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
        new, old = self.of_guide(log_probs, old_log_probs)
        if rollout_log_probs is not None:
            rollout_log_probs = torch.where(guide, old, rollout_log_probs)
        return self.loss(
            torch.where(guide, new, log_probs),
            torch.where(guide, old, old_log_probs),
            advantages,
            action_mask=action_mask,
            rollout_log_probs=rollout_log_probs,
            **batch,
        )


class ShapedGuideLoss(GuideLoss):
    """LUFFY's policy shaping: f(r) = r / (r + gamma) in place of the ratio r.

    f(r) is below 1, so a positive advantage is never clipped, as in LUFFY (arXiv 2504.14945). A negative advantage is
    clipped where f(r) is below 1 - clip_eps_low, as on the policy's own responses.
    """

    def __init__(self, loss: torch.nn.Module, gamma: float) -> None:
        super().__init__(loss)
        self.gamma = gamma

    def of_guide(self, log_probs: torch.Tensor, old_log_probs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return shaped_log_ratio(log_probs - old_log_probs, self.gamma), torch.zeros_like(old_log_probs)


class SupervisedGuideLoss(GuideLoss):
    """Supervised learning: the gradient is that of the advantage times log pi_theta.

    The ratio is the policy's to itself, so it is exactly 1 in every update of a step, and no clip acts on it. Its
    gradient is the log-probability's. The loss's value on these tokens is minus the advantage, not a cross-entropy.
    """

    def of_guide(self, log_probs: torch.Tensor, old_log_probs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return log_probs, log_probs.detach()
