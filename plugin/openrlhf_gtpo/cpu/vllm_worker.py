"""vLLM's worker on a CPU: the entropy hook, and OpenRLHF's weight sync through `StoreGroup`."""

from types import SimpleNamespace
from typing import Any

import torch
from openrlhf.trainer.ray.vllm_worker_wrap import WorkerWrap
from vllm.v1.worker.cpu_worker import CPUWorker

from openrlhf_gtpo.cpu.sleep import install_engine_sleep
from openrlhf_gtpo.cpu.weight_sync import StoreGroup, received
from openrlhf_gtpo.vllm_worker import EntropyWorkerExtension

install_engine_sleep(CPUWorker)  # vLLM refuses an extension that overrides a method of its worker


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

    def update_weight(self, name: str, dtype: torch.dtype, shape: Any, empty_cache: bool = False) -> None:
        """Receive one parameter. After the last one, marked by ``empty_cache``, all are loaded.

        On a CPU vLLM packs its linear weights, so a parameter cannot be overwritten. The model loads all parameters
        again, as from a checkpoint.
        """
        weight = torch.empty(shape, dtype=dtype)
        self._sync_group.broadcast(weight, src=0)
        self._take([(name, weight)], last=empty_cache)

    def update_weight_cuda_ipc(
        self, name: str, dtype: torch.dtype, shape: Any, ipc_handles: Any = None, empty_cache: bool = False
    ) -> None:
        """Receive one parameter from the policy on the same GPU. OpenRLHF's own method opens the handle."""
        if "weights" in self._asleep:  # type: ignore[attr-defined]
            raise RuntimeError("The policy's weights were sent while the engine's weights sleep.")
        opened: list[tuple[str, torch.Tensor]] = []
        model = SimpleNamespace(load_weights=lambda weights: opened.extend(weights))  # by this argument's name
        worker = SimpleNamespace(
            device=torch.device("cuda", 0),
            model_config=self.model_config,  # type: ignore[attr-defined]
            model_runner=SimpleNamespace(model=model),
        )
        with received(ipc_handles):
            WorkerWrap.update_weight_cuda_ipc(worker, name, dtype, shape, ipc_handles, empty_cache)
        self._take(opened, last=empty_cache)

    def _take(self, weights: list[tuple[str, torch.Tensor]], last: bool) -> None:
        """Keep the parameters, and load all of them after the last."""
        self._received = [*getattr(self, "_received", []), *weights]
        if last:
            received, self._received = self._received, []
            self.model_runner.reload_weights(weights_iterator=iter(received))  # type: ignore[attr-defined]
