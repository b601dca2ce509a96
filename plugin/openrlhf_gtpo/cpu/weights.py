"""Weight sync without NCCL: tensors go from the policy actor to vLLM's workers through a TCP store."""

from typing import Any

import torch

__all__ = ["StoreGroup"]


class StoreGroup:
    """Has the one method of vLLM's ``PyNcclCommunicator`` that OpenRLHF calls, over vLLM's
    ``StatelessProcessGroup``."""

    def __init__(self, host: str, port: int, rank: int, world_size: int) -> None:
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
