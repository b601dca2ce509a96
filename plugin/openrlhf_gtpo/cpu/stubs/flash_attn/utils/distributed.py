"""What OpenRLHF imports from ``flash_attn.utils.distributed``, in plain torch."""

from typing import Any

import torch
import torch.distributed as dist

__all__ = ["all_gather"]


class _AllGather(torch.autograd.Function):
    """Concatenates along the first axis over a group; the gradient is summed over the group, each rank keeping its
    own part."""

    @staticmethod
    def forward(context: Any, values: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
        context.group = group
        parts = [torch.empty_like(values) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, values.contiguous(), group=group)
        return torch.cat(parts)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        gradient = gradient.contiguous().clone()
        dist.all_reduce(gradient, group=context.group)
        parts = gradient.chunk(dist.get_world_size(context.group))
        return parts[dist.get_rank(context.group)], None


def all_gather(values: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
    """Every rank's ``values`` (n, ...) behind each other (ranks * n, ...), differentiable."""
    gathered: torch.Tensor = _AllGather.apply(values, group)
    return gathered
