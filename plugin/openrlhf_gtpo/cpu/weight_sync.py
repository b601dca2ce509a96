"""Weight sync without CUDA: to an engine on the policy's logical GPU as bytes, in place of CUDA's handles of memory;
to other engines through a TCP store, in place of NCCL."""

import pickle
from typing import Any

import torch

from openrlhf_gtpo.cpu.sleep import gpu_name


def reduce_tensor(tensor: torch.Tensor) -> bytes:
    """Takes the place of ``torch.multiprocessing.reductions.reduce_tensor``, with which OpenRLHF makes a handle: the
    values themselves."""
    return pickle.dumps(tensor)


def tensor_of(handles: dict[str, bytes]) -> torch.Tensor:
    """In an engine: the policy's tensor on this GPU, of those that `reduce_tensor` made, by the names of logical GPUs.
    The workers of an engine that has several do not know theirs and take the first; all hold the same values."""
    tensor: torch.Tensor = pickle.loads(handles[gpu_name() or next(iter(handles))])
    return tensor


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
