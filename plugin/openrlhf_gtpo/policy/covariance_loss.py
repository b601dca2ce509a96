"""Clip-Cov's and KL-Cov's objectives (Cui et al., arXiv 2505.22617), with the interface of OpenRLHF's PolicyLoss.

`openrlhf_gtpo.algorithms.covariance` has the definitions. The numbers of the whole rollout batch come with each
micro-batch's ``info``; what the loss did goes back there, for the log."""

from collections.abc import Sequence
from typing import Any

import torch
from openrlhf.trainer.ppo_utils.experience import Experience

from openrlhf_gtpo.algorithms.covariance import covariance
from openrlhf_gtpo.algorithms.mixed_policy import LOG_RATIO_BOUND
from openrlhf_gtpo.policy.loss import LikeAnother


class CovarianceLoss(LikeAnother):
    """OpenRLHF's token-level loss, which knows each token's covariance.

    Attributes:
        info: of the next call's micro-batch: name -> (B,) or B numbers. What is measured is added to it.
    """

    info: dict[str, Any]

    def see(self, experience: Experience) -> None:
        """Take the numbers of the whole batch from the next call's micro-batch."""
        self.info = experience.info

    def number(self, name: str, like: torch.Tensor) -> torch.Tensor:
        """(B, 1) a number of the whole batch, for each response."""
        return torch.stack(list(self.info[name])).to(like).reshape(-1, 1)

    def covariance(self, log_probs: torch.Tensor, advantages: torch.Tensor) -> torch.Tensor:
        """(B, T) of each token, with the batch's means."""
        return covariance(
            log_probs,
            advantages,
            self.number("covariance/logprob_mean", log_probs),
            self.number("covariance/advantage_mean", log_probs),
        )


class ClipCovLoss(CovarianceLoss):
    """Cuts the gradient of some tokens whose covariance is between two bounds.

    As in the reference code, tokens that PPO's clip cuts already are left alone, and the mean still divides by the
    number of all tokens. Each token between the bounds is cut with the batch's ``clip_cov/chance``.

    Args:
        bounds: lowest and highest covariance, both excluded.
    """

    def __init__(self, bounds: Sequence[float]) -> None:
        super().__init__()
        self.bounds = tuple(bounds)
        # OpenRLHF seeds all ranks alike, so ranks that share a sequence (ring attention) cut the same tokens.
        self.chances = torch.Generator().manual_seed(torch.initial_seed())

    def forward(
        self,
        log_probs: torch.Tensor,
        old_log_probs: torch.Tensor,
        advantages: torch.Tensor,
        action_mask: torch.Tensor | None = None,
        rollout_log_probs: torch.Tensor | None = None,
        **batch: Any,
    ) -> Any:
        """As PolicyLoss: the same arguments, shapes (B, T) and results."""
        on = torch.ones_like(log_probs, dtype=torch.bool) if action_mask is None else action_mask.bool()
        low, high = self.bounds
        covariances = self.covariance(log_probs, advantages)
        ratio = (log_probs.detach() - old_log_probs).clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND).exp()
        clipped = ratio.clamp(1 - self.clip_eps_low, 1 + self.clip_eps_high) * advantages < ratio * advantages
        between = (covariances > low) & (covariances < high) & on & ~clipped
        drawn = torch.rand(log_probs.shape, generator=self.chances).to(log_probs.device)
        cut = between & (drawn < self.number("clip_cov/chance", log_probs))
        self.info["clip_cov/between_share"] = between.sum() / on.sum().clamp(min=1)
        self.info["clip_cov/cut_share"] = cut.sum() / on.sum().clamp(min=1)
        return super().forward(log_probs, old_log_probs, advantages * ~cut, action_mask, rollout_log_probs, **batch)


class KLCovLoss(CovarianceLoss):
    """Adds a penalty to the tokens of the highest covariance: |log pi - log pi_old|, times a weight.

    The paper writes KL(pi_old || pi); its reference code takes this size of the log-ratio, whose gradient is 0 where
    the policy has not moved yet. So the penalty acts from a batch's second update on.

    Args:
        coef: the penalty's weight.
    """

    def __init__(self, coef: float) -> None:
        super().__init__()
        self.coef = coef

    def forward(
        self,
        log_probs: torch.Tensor,
        old_log_probs: torch.Tensor,
        advantages: torch.Tensor,
        action_mask: torch.Tensor | None = None,
        rollout_log_probs: torch.Tensor | None = None,
        dp_size: int = 1,
        batch_num_tokens: torch.Tensor | float | None = None,
        **batch: Any,
    ) -> Any:
        """As PolicyLoss: the same arguments, shapes (B, T) and results."""
        on = torch.ones_like(log_probs, dtype=torch.bool) if action_mask is None else action_mask.bool()
        loss, *rest = super().forward(
            log_probs,
            old_log_probs,
            advantages,
            action_mask,
            rollout_log_probs,
            dp_size=dp_size,
            batch_num_tokens=batch_num_tokens,
            **batch,
        )
        chosen = on & (self.covariance(log_probs, advantages) >= self.number("kl_cov/threshold", log_probs))
        penalty = torch.where(chosen, (log_probs - old_log_probs).abs(), 0.0).sum()
        tokens = on.sum().clamp(min=1)
        mean = penalty / tokens if batch_num_tokens is None else penalty / batch_num_tokens * dp_size
        self.info["kl_cov/penalised_share"] = chosen.sum() / tokens
        self.info["kl_cov/penalty"] = (self.coef * penalty / tokens).detach()
        return loss + self.coef * mean, *rest
