"""Replaces ring_flash_attn on a machine without CUDA: attention over sequences that are split over ranks.

The original passes keys and values around a ring, so that no rank holds all of them; here every rank gathers them. The
attention and its gradient are the same.
"""

from typing import Any

import torch
import torch.distributed as dist
from flash_attn.utils.distributed import all_gather
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

__all__ = ["substitute_hf_flash_attn", "update_ring_flash_attn_params"]

_bounds = torch.zeros(0, dtype=torch.int32)
"""Where each of the packed sequences begins and the last one ends, over all ranks."""


def update_ring_flash_attn_params(cu_seqlens: torch.Tensor, group: dist.ProcessGroup) -> None:
    """Set the packing of the next forward pass.

    Args:
        cu_seqlens: bounds of the sequences, int32 (sequences + 1,).
        group: not used.
    """
    global _bounds
    _bounds = cu_seqlens


def substitute_hf_flash_attn(group: dist.ProcessGroup, heads_k_stride: int) -> None:
    """Make transformers' plain attention attend over the group.

    Args:
        group: the ranks that share each sequence.
        heads_k_stride: heads that the original sends at once; not used.
    """

    def attention(
        module: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        scaling: float,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, None]:
        """Query (1, heads, tokens of this rank, d); key and value alike with fewer heads; gives
        (1, tokens, heads, d)."""
        keys, values = (all_gather(part[0].transpose(0, 1), group).transpose(0, 1) for part in (key, value))
        groups = query.shape[1] // keys.shape[0]
        keys, values = (part.repeat_interleave(groups, dim=0) for part in (keys, values))
        ours = query.shape[2]
        at = torch.arange(keys.shape[1])
        ours_at = at[dist.get_rank(group) * ours :][:ours]
        sequence = torch.bucketize(at, _bounds[1:].to(at.dtype), right=True)
        seen = (sequence[ours_at, None] == sequence) & (at <= ours_at[:, None])
        scores = (query[0] @ keys.transpose(1, 2)) * scaling
        weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1, dtype=torch.float32).to(query.dtype)
        return (weights @ values).transpose(0, 1)[None].contiguous(), None

    ALL_ATTENTION_FUNCTIONS.register("sdpa", attention)
