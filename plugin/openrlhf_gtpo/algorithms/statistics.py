"""Statistics that several metrics share."""

import math

import torch

__all__ = ["spread"]

QUANTILES = (0.1, 0.5, 0.9)
# torch.quantile sorts, so of a larger batch only this many values, evenly spaced, are used.
QUANTILE_SAMPLE = 1_000_000


def spread(found: dict[str, float], prefix: str, values: torch.Tensor) -> None:
    """Add mean and quantiles to ``found``, as ``{prefix}mean``, ``{prefix}q10``, ``{prefix}q50`` and ``{prefix}q90``.

    Args:
        found: metric name -> value; changed in place.
        prefix: of the four names.
        values: (n,) float, at least one.
    """
    found[f"{prefix}mean"] = values.mean().item()
    sample = values[:: math.ceil(values.numel() / QUANTILE_SAMPLE)]
    sample = sample.to(torch.promote_types(sample.dtype, torch.float32))
    for q, value in zip(QUANTILES, sample.quantile(sample.new_tensor(QUANTILES)).tolist(), strict=True):
        found[f"{prefix}q{round(100 * q)}"] = value
