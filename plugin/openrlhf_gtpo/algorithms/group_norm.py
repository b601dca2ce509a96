"""GRPO's advantages (DeepSeekMath, arXiv 2402.03300), which OpenRLHF calls group_norm. Pure tensor mathematics."""

import torch

from openrlhf_gtpo.algorithms.arguments import check_tensor

STD_EPS = 1e-9
"""Added to a group's standard deviation, as in OpenRLHF's group_norm."""


def group_norm(rewards: torch.Tensor, group: torch.Tensor) -> torch.Tensor:
    """Rewards minus their group's mean, divided by its standard deviation, for groups of any size.

    For groups of one size the result equals that of OpenRLHF's group_norm estimator bit for bit; the standard
    deviation is the sample's (n - 1). There is one exception: a group of equal rewards gets 0, where that estimator
    can divide one rounding error by another (eight rewards of 0.1 get -0.83 each).

    Args:
        rewards: (N,) float, finite.
        group: (N,) integers, which prompt each response answers: any ids, in any order.

    Returns:
        (N,) float32, (r - mean) / (std + 1e-9); 0 for a group of one response.

    Raises:
        ValueError: an argument has the wrong shape or type, or a reward is not finite.
    """
    check_tensor("rewards", rewards, "float", "N")
    check_tensor("group", group, "integer", len(rewards))
    if not rewards.isfinite().all():
        raise ValueError("rewards must be finite, but they hold inf or NaN")
    values = rewards.detach().to(torch.promote_types(rewards.dtype, torch.float32))
    _, place, sizes = group.unique(return_inverse=True, return_counts=True)
    order = place.argsort(stable=True)  # (N,) responses, group by group
    size = sizes[place[order]]  # (N,)
    result = torch.zeros_like(values)
    for responses in sizes.unique().tolist():
        if responses == 1:
            continue  # no deviation, so it keeps 0
        rows = order[size == responses].reshape(-1, responses)  # (groups of this size, responses)
        of_groups = values[rows]
        centred = of_groups - of_groups.mean(-1, keepdim=True)
        scaled = centred / (of_groups.std(-1, keepdim=True) + STD_EPS)
        all_equal = (of_groups == of_groups[:, :1]).all(-1, keepdim=True)
        result[rows] = scaled.masked_fill(all_equal, 0.0)
    return result.float()
