"""vLLM's worker on a CPU: the entropy hook, and OpenRLHF's weight sync by `weight_sync`."""

import logging
from collections.abc import Sequence
from typing import Any

import torch
from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead, VocabParallelEmbedding
from vllm.v1.worker.cpu_worker import CPUWorker

from openrlhf_gtpo.cpu.sleep import install_engine_sleep
from openrlhf_gtpo.cpu.weight_sync import WeightGroup, tensor_of
from openrlhf_gtpo.vllm_worker import EntropyWorkerExtension

install_engine_sleep(CPUWorker)  # vLLM refuses an extension that overrides a method of its worker
# At each update it warns of two layers that got no weights: rotary embeddings, which have none, and a tied head.
logging.getLogger("vllm.model_executor.model_loader.reload.layerwise").setLevel(logging.ERROR)


class CpuWorkerExtension(EntropyWorkerExtension):
    """Answers the calls that OpenRLHF makes to ``openrlhf.trainer.ray.vllm_worker_wrap.WorkerWrap``."""

    _policy_weights: tuple[tuple[str, torch.Tensor], ...] = ()

    def init_process_group(
        self, master_address: str, master_port: int, rank_offset: int, world_size: int, *_: Any
    ) -> None:
        """Join the group whose rank 0 is the policy actor."""
        rank = torch.distributed.get_rank() + rank_offset
        self._sync_group = WeightGroup(master_address, master_port, rank, world_size)

    def update_weight(
        self, name: Sequence[str], dtype: Sequence[torch.dtype], shape: Sequence[Any], empty_cache: bool = False
    ) -> None:
        """Receive a message of parameters; the last one is marked by ``empty_cache``."""
        self._policy_weights += tuple(zip(name, self._sync_group.receive(dtype, shape), strict=True))
        self._load_policy_weights(empty_cache)

    def update_weight_cuda_ipc(
        self, name: str, dtype: torch.dtype, shape: Any, ipc_handles: dict[str, bytes], empty_cache: bool = False
    ) -> None:
        """Receive one parameter from the policy on the same GPU.

        Raises:
            RuntimeError: the engine's weights sleep, so that there is no memory to receive it.
        """
        if "weights" in self._asleep:  # type: ignore[attr-defined]
            raise RuntimeError("The policy's weights were sent while the engine's weights sleep.")
        self._policy_weights += ((name, tensor_of(ipc_handles)),)
        self._load_policy_weights(empty_cache)

    def _load_policy_weights(self, last: bool) -> None:
        """After the last one, load all that were received.

        On a CPU vLLM packs its linear weights, so a parameter cannot be overwritten. The model loads all parameters
        again, as from a checkpoint.
        """
        if last:
            weights, self._policy_weights = self._policy_weights, ()
            self.model_runner.reload_weights(weights_iterator=iter(weights))  # type: ignore[attr-defined]
            tie_head(self.model_runner.model)  # type: ignore[attr-defined]


def tie_head(model: torch.nn.Module) -> None:
    """Give a tied head the embedding's new weights. vLLM's reload leaves it with the old ones, packed for a CPU: the
    engine would go on with the new embedding and the first step's head.

    Args:
        model: vLLM's, changed; one with a head of its own is left as it is.
    """
    config: Any = model.config
    if not getattr(config.get_text_config(), "tie_word_embeddings", False):
        return
    embedding = next(layer for layer in model.modules() if type(layer) is VocabParallelEmbedding)
    for head in (layer for layer in model.modules() if isinstance(layer, ParallelLMHead)):
        head.tie_weights(embedding)
        head.quant_method.process_weights_after_loading(head)
