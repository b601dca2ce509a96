"""Words for tensors that a function refuses."""

import torch

__all__ = ["described"]


def described(tensor: torch.Tensor) -> str:
    """Type and shape, as a message shows them."""
    return f"{tensor.dtype} of shape {tuple(tensor.shape)}"
