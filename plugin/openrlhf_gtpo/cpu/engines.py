"""vLLM's engines on a CPU, in Ray's rollout actors."""

from typing import Any

from openrlhf_gtpo.cpu.platform import BLOCK_TOKENS
from openrlhf_gtpo.cpu.sleep import name_gpu
from openrlhf_gtpo.rollout.actor import RolloutActor


class CpuRolloutActor(RolloutActor):
    """The rollout actor with an engine that runs on a CPU."""

    async def __init__(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[misc]
        name_gpu()
        kwargs["enable_sleep_mode"] = False  # vLLM refuses it on a CPU; ``cpu/sleep.py`` emulates it
        kwargs["block_size"] = BLOCK_TOKENS
        if kwargs["tensor_parallel_size"] > 1:
            kwargs["distributed_executor_backend"] = "mp"  # Ray's executor would need a GPU for each worker
        await super().__init__(*args, **kwargs)
