"""One more estimator: GRPO's advantage, of which success gets a small share and failure all (after Zhu et al., arXiv
2506.01347, who weigh success with 0.1).

A where A < 0, lambda * A elsewhere.
"""

import torch

from openrlhf_gtpo.algorithms.estimators import Estimate, Rollouts, group_norm
from openrlhf_gtpo.algorithms.table import ESTIMATORS, Estimator, flag


def less_from_success(rollouts: Rollouts, weight: float) -> Estimate:
    grpo = group_norm(rollouts)  # (N, T)
    learned = torch.where(grpo.advantages < 0, grpo.advantages, weight * grpo.advantages)
    share = (learned < 0).sum() / (learned != 0).sum().clamp(min=1)
    return Estimate(learned, grpo.returns, metrics={"less_from_success/negative_share": share.item()})


ESTIMATORS["less_from_success"] = Estimator(
    "Less from success",
    "GRPO's advantage with less weight on success than on failure (after arXiv 2506.01347)",
    f"{__name__}:less_from_success",
    needs_correctness=False,
    flags=(
        flag(
            "less_from_success.weight",
            "weight of success (default: 0.1)",
            (lambda weight: 0 <= weight <= 1, "needs to be from 0 to 1"),
            type=float,
            default=0.1,
        ),
    ),
)
