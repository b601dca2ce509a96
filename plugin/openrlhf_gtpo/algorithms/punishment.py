"""Group Relative Overlong Punishment: a length penalty relative to a response's own group (Appendix D of the paper,
arXiv 2508.04349). Pure tensor mathematics."""

import torch

from openrlhf_gtpo.algorithms.groups import per_group

EASY_SHARE = 0.75
"""A group is easy if at least this share of its responses is correct, and hard if at most one minus this share is. The
paper's gamma_1, for which it gives no value."""


def overlong_punishment(length: torch.Tensor, correct: torch.Tensor, group: torch.Tensor) -> torch.Tensor:
    """A penalty, added to the reward, for each response that is long compared with the others of its group.

    With L = max((shortest + longest) / 2, mean length), a response of up to L tokens loses nothing, one of 2 L or more
    loses 1/2, and in between it is linear: -(length - L) / (2 L).

    * Easy group: L is that of the correct responses, and only these are punished.
    * Hard group: nobody is punished.
    * Other groups: L is that of the whole group, and the larger class is punished; of equal classes, the wrong one.

    Args:
        length: (N,) tokens of each response.
        correct: (N,) bool.
        group: (N,) int, which prompt each response answers, in any order.

    Returns:
        (N,) float in [-1/2, 0].
    """
    rows = group.unique(return_inverse=True)[1]
    length = length.to(torch.float64)
    size = per_group(torch.ones_like(length), rows)
    right = per_group(correct.to(length.dtype), rows)
    is_easy = right >= EASY_SHARE * size
    is_hard = right <= (1 - EASY_SHARE) * size

    limit = torch.where(is_easy, _limit(length, rows, correct), _limit(length, rows, torch.ones_like(correct)))[rows]
    mostly_right = is_easy | (right > size - right)
    punished = (correct == mostly_right[rows]) & ~is_hard[rows]
    punishment = -((length - limit) / (2 * limit.clamp(min=1))).clamp(0, 0.5)
    return torch.where(punished, punishment, 0.0).float()


def _limit(length: torch.Tensor, rows: torch.Tensor, counted: torch.Tensor) -> torch.Tensor:
    """L of every group, over the responses that are counted; 0 where none is."""
    number = per_group(counted.to(length.dtype), rows).clamp(min=1)
    mean = per_group(torch.where(counted, length, 0.0), rows) / number
    longest = per_group(torch.where(counted, length, 0.0), rows, "amax")
    shortest = per_group(torch.where(counted, length, float("inf")), rows, "amin")
    return torch.maximum((torch.where(shortest.isinf(), 0.0, shortest) + longest) / 2, mean)
