"""Log-probabilities of tokens from logits, a few rows at a time, so that what is in float32 stays in a CPU's cache.

Autograd's own would write all logits and their gradient in float32, each several times. With SmolLM2's 49,152 tokens
that was a ninth of an update."""

from typing import Any

import torch

ROWS = 16
"""Of 49,152 logits, 3 MiB in float32."""


class TokenLogProbs(torch.autograd.Function):
    """What `token_log_probs` computes, and its gradient: at a logit the share of the tokens that are there, less
    softmax."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, temperature: float, place: torch.Tensor, token: torch.Tensor) -> Any:
        normalizer = torch.empty(len(logits))
        for begin in range(0, len(logits), ROWS):
            rows = slice(begin, begin + ROWS)
            normalizer[rows] = (logits[rows].float() / temperature).logsumexp(-1)
        ctx.save_for_backward(logits, place, token, normalizer)
        ctx.temperature = temperature
        return logits[place, token].float() / temperature - normalizer[place]

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        logits, place, token, normalizer = ctx.saved_tensors
        of_row = torch.zeros(len(logits)).index_add_(0, place, gradient)
        out = torch.empty_like(logits)
        for begin in range(0, len(logits), ROWS):
            rows = slice(begin, begin + ROWS)
            values = (logits[rows].float() / ctx.temperature).sub_(normalizer[rows, None]).exp_()
            values.mul_(-of_row[rows, None])
            here = (place >= begin) & (place < begin + ROWS)
            values.index_put_((place[here] - begin, token[here]), gradient[here], accumulate=True)
            out[rows] = values.div_(ctx.temperature)
        return out, None, None, None


def token_log_probs(
    logits: torch.Tensor, temperature: float, place: torch.Tensor, token: torch.Tensor
) -> torch.Tensor:
    """The log-probability of each token at its row of logits.

    Args:
        logits: (R, V), any floating-point dtype; several tokens may have one row.
        temperature: divides the logits.
        place: (n,) int64, of a token its row.
        token: (n,) int64.

    Returns:
        (n,) float32.
    """
    found: torch.Tensor = TokenLogProbs.apply(logits, temperature, place, token)
    return found
