"""A fourth estimator: GRPO's advantage with an entropy bonus (Cheng et al., arXiv 2506.14758).

A + min(alpha * H, |A| / kappa), with the entropy H in nats and without gradient: it lengthens an advantage, and never
turns its sign.
"""

import torch

from openrlhf_gtpo.algorithms.estimators import Estimate, Rollouts, group_norm
from openrlhf_gtpo.algorithms.table import ESTIMATORS, Estimator, Flag


def entropy_advantage(rollouts: Rollouts, alpha: float, kappa: float) -> Estimate:
    grpo = group_norm(rollouts)  # (N, T)
    bonus = torch.minimum(alpha * rollouts.entropy, grpo.advantages.abs() / kappa)
    return Estimate((grpo.advantages + bonus) * rollouts.mask, grpo.returns)


ESTIMATORS["entropy_advantage"] = Estimator(
    "Entropy advantage",
    "GRPO's advantage plus a bonus for entropy (arXiv 2506.14758)",
    f"{__name__}:entropy_advantage",
    needs_correctness=False,
    flags=(
        Flag("entropy_advantage.alpha", {"type": float, "default": 0.4, "help": "weight of entropy (default: 0.4)"}),
        Flag("entropy_advantage.kappa", {"type": float, "default": 2.0, "help": "bound of the bonus (default: 2.0)"}),
    ),
)
