"""What OpenRLHF imports from ``flash_attn.bert_padding``, in plain torch: between padded sequences (N, T, ...) and
their tokens in one row (tokens, ...)."""

import torch
from einops import rearrange

__all__ = ["index_first_axis", "pad_input", "rearrange", "unpad_input"]


def index_first_axis(values: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """The rows of ``values`` at ``indices`` (tokens,)."""
    return values[indices]


def unpad_input(
    values: torch.Tensor, attention_mask: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, int, torch.Tensor]:
    """Leave the padding out.

    Args:
        values: (N, T, ...).
        attention_mask: (N, T), 1 where there is a token.

    Returns:
        The tokens' values (tokens, ...); their places in the flattened (N * T); where each sequence begins and the
        last one ends, int32 (N + 1,); the longest sequence's length; each one's length, int32 (N,).
    """
    lengths = attention_mask.sum(dim=1, dtype=torch.int32)
    indices = attention_mask.flatten().nonzero().flatten()
    ends = lengths.cumsum(0, dtype=torch.int32)
    bounds = torch.cat([ends.new_zeros(1), ends])
    return index_first_axis(values.flatten(0, 1), indices), indices, bounds, int(lengths.max()), lengths


def pad_input(values: torch.Tensor, indices: torch.Tensor, batch: int, seqlen: int) -> torch.Tensor:
    """Undo ``unpad_input``: (tokens, ...) to (batch, seqlen, ...), 0 where there is padding."""
    padded = values.new_zeros(batch * seqlen, *values.shape[1:])
    return padded.index_copy(0, indices, values).unflatten(0, (batch, seqlen))
