"""Forking tokens (Wang et al., arXiv 2506.01939): only those of highest entropy learn. Pure tensor mathematics."""

import torch

__all__ = ["forking_tokens"]


def forking_tokens(entropy: torch.Tensor, mask: torch.Tensor, share: float) -> torch.Tensor:
    """Which tokens keep their advantage: the given share of a batch's response tokens with the highest entropy.

    The caller sets the other advantages to 0, which removes those tokens from the clipped objective and its gradient.
    The objective is still divided by the number of all tokens, as in that paper. Tokens whose entropy equals the
    threshold are all kept.

    Args:
        entropy: (N, T) nats; values off the mask are ignored.
        mask: (N, T), 1 on response tokens.
        share: above 0, at most 1.

    Returns:
        (N, T) bool, False off the mask; at least one token is kept where there are any.
    """
    on = mask.bool()
    values = entropy[on]
    if not values.numel():
        return on
    kept = max(1, round(share * values.numel()))
    threshold = values.topk(kept).values[-1]
    return on & (entropy >= threshold)
