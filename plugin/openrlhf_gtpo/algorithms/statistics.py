"""Statistics that several metrics share."""

import math

import torch

QUANTILES = (0.1, 0.5, 0.9)
# torch.quantile sorts, so of a larger batch only this many values, evenly spaced, are used.
QUANTILE_SAMPLE = 1_000_000


def spread(metrics: dict[str, float], prefix: str, values: torch.Tensor) -> None:
    """Add mean and quantiles to ``metrics``: ``{prefix}mean``, ``{prefix}q10``, ``{prefix}q50`` and ``{prefix}q90``.

    Args:
        metrics: metric name -> value; changed in place.
        prefix: of the four names.
        values: (n,) float, at least one.
    """
    metrics[f"{prefix}mean"] = values.mean().item()
    sample = values[:: math.ceil(values.numel() / QUANTILE_SAMPLE)]
    sample = sample.to(torch.promote_types(sample.dtype, torch.float32))
    for q, value in zip(QUANTILES, sample.quantile(sample.new_tensor(QUANTILES)).tolist(), strict=True):
        metrics[f"{prefix}q{round(100 * q)}"] = value
