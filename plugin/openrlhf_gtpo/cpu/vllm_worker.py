"""vLLM's worker on a CPU: the entropy hook, and OpenRLHF's weight sync by way of `StoreGroup`."""

from typing import Any

import torch

from openrlhf_gtpo.cpu.weights import StoreGroup
from openrlhf_gtpo.vllm_worker import EntropyWorkerExtension


class CpuWorkerExtension(EntropyWorkerExtension):
    """Answers the calls that OpenRLHF makes to ``openrlhf.trainer.ray.vllm_worker_wrap.WorkerWrap``."""

    def init_process_group(
        self,
        master_address: str,
        master_port: int,
        rank_offset: int,
        world_size: int,
        group_name: str,
        backend: str = "gloo",
        use_ray: bool = False,
    ) -> None:
        """Join the group whose rank 0 is the policy actor."""
        rank = torch.distributed.get_rank() + rank_offset
        self._sync_group = StoreGroup(master_address, master_port, rank, world_size)
        self._received: list[tuple[str, torch.Tensor]] = []

    def update_weight(self, name: str, dtype: torch.dtype, shape: Any, empty_cache: bool = False) -> None:
        """Receive one parameter; ``empty_cache`` marks the last one, with which all are put in place.

        On a CPU vLLM packs its linear weights, so a parameter cannot be overwritten: the model takes them in again
        as it took the checkpoint.
        """
        weight = torch.empty(shape, dtype=dtype)
        self._sync_group.broadcast(weight, src=0)
        self._received.append((name, weight))
        if empty_cache:
            received, self._received = self._received, []
            self.model_runner.reload_weights(weights_iterator=iter(received))  # type: ignore[attr-defined]
