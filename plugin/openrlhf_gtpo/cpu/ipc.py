"""Weight sync inside one GPU. OpenRLHF sends an engine the CUDA handle of a tensor of the policy on the same GPU. Here
the handle holds the values themselves; OpenRLHF's own code sends each handle to the engine of its GPU.
"""

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch

from openrlhf_gtpo.cpu.sleep import gpu_id

__all__ = ["install_sender", "received"]

DEVICE_PLACE = 6
"""Position of the device's index, which OpenRLHF replaces, among the arguments of a handle."""


def _opened(data: bytes, dtype: str, shape: list[int], *_: Any) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=getattr(torch, dtype)).view(*shape)


def _handle(tensor: torch.Tensor) -> tuple[Any, tuple[Any, ...]]:
    """As ``torch.multiprocessing.reductions.reduce_tensor``: a function that rebuilds the tensor, and its arguments.
    The values are bytes, since vLLM serialises tensors in its own way on their way to an engine."""
    data = tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes()
    arguments = (data, str(tensor.dtype).removeprefix("torch."), list(tensor.shape))
    return _opened, (*arguments, *[None] * (DEVICE_PLACE - len(arguments)), 0)


def _properties(device: Any) -> SimpleNamespace:
    return SimpleNamespace(uuid=gpu_id())


def install_sender() -> None:
    """Prepare a policy actor's process."""
    import torch.multiprocessing.reductions as reductions

    torch.cuda.get_device_properties = _properties  # type: ignore[assignment]
    reductions.reduce_tensor = _handle


@contextlib.contextmanager
def received(handles: dict[str, Any]) -> Iterator[None]:
    """A context in which OpenRLHF's method opens a handle in vLLM's worker: torch reports the GPU of its actor.

    Args:
        handles: by GPU. In an engine of several workers each takes the first, since a CPU worker has no GPU.
    """
    uuid = gpu_id() or next(iter(handles))
    cuda = {
        "current_device": lambda: 0,
        "get_device_properties": lambda device: SimpleNamespace(uuid=uuid),
        "synchronize": lambda: None,
    }
    with mock.patch.multiple(torch.cuda, **cuda):  # type: ignore[call-overload]
        yield
