"""Reductions over groups: one value for each prompt, out of its responses' values."""

from typing import Literal

import torch


def per_group(
    values: torch.Tensor, group: torch.Tensor, reduce: Literal["sum", "mean", "amax", "amin"] = "sum"
) -> torch.Tensor:
    """Reduce each group's values to one.

    Args:
        values: (N,), at least one; floats for ``"mean"``.
        group: (N,) int64, which group each value is of, from 0.
        reduce: what to take of a group.

    Returns:
        (largest group's number + 1,) of values' type; 0 for a number that no value has.
    """
    groups = int(group.max()) + 1
    return values.new_zeros(groups).scatter_reduce(0, group, values, reduce, include_self=False)
