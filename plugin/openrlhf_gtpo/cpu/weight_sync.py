"""Weight sync without CUDA, between OpenRLHF's own code on both sides: to an engine on the policy's logical GPU by
handles, elsewhere, in place of NCCL, through a TCP store.

On a GPU a handle says where a tensor of the policy is. Here it holds the values themselves, as bytes, since vLLM
serialises tensors in its own way on their way to an engine."""

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch

from openrlhf_gtpo.cpu.sleep import gpu_id

DEVICE_PLACE = 6
"""Position of the device's index, which OpenRLHF replaces, among the arguments of a handle."""


def _opened(data: bytes, dtype: str, shape: list[int], *_: Any) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=getattr(torch, dtype)).view(*shape)


def handle(tensor: torch.Tensor) -> tuple[Any, tuple[Any, ...]]:
    """As torch's ``reduce_tensor``: a function that rebuilds the tensor, and its arguments."""
    data = tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes()
    arguments = (data, str(tensor.dtype).removeprefix("torch."), list(tensor.shape))
    return _opened, (*arguments, *[None] * (DEVICE_PLACE - len(arguments)), 0)


def properties(device: Any) -> SimpleNamespace:
    """As ``torch.cuda.get_device_properties``, as far as OpenRLHF reads them: the name of this actor's logical GPU."""
    return SimpleNamespace(uuid=gpu_id())


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


class StoreGroup:
    """Has the one method of vLLM's ``PyNcclCommunicator`` that OpenRLHF calls, over vLLM's
    ``StatelessProcessGroup``."""

    def __init__(self, host: str, port: int, rank: int, world_size: int, *_: Any) -> None:
        from vllm.distributed.utils import StatelessProcessGroup

        # OpenRLHF waits for every receiver before it sends the next tensor, so the store may forget one at once;
        # by default it would keep an hour's worth in memory.
        self.group = StatelessProcessGroup.create(host, port, rank, world_size, data_expiration_seconds=0)
        self.rank = rank

    def broadcast(self, tensor: torch.Tensor, src: int, stream: Any = None) -> None:
        """Send ``tensor`` from rank ``src``, receive into it elsewhere."""
        # A DeepSpeed parameter is a view of one flat buffer, all of which pickling would drag along: hence the copy.
        received = self.group.broadcast_obj(tensor.detach().clone() if self.rank == src else None, src)
        if self.rank != src:
            tensor.copy_(received)
