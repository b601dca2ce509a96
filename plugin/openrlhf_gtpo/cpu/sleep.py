"""Emulates sleep, with which engine and policy share a GPU, in the policy's actors and in vLLM's workers.

On a CPU there is no GPU memory to free. The visible effects are emulated: each change is logged in one line, a
sleeping engine refuses to generate, and its cache is lost when it wakes up.
"""

import functools
import os
import time
from collections.abc import Sequence
from typing import Any

PARTS = ("weights", "kv_cache")
"""What an engine frees when it sleeps, by vLLM's names."""
GARBAGE = 1000.0
"""Value of the cache after a sleep. It is finite, since attention multiplies masked positions by 0."""
GPU_VARIABLE = "OPENRLHF_GTPO_LOGICAL_GPU"


def name_gpu() -> None:
    """In a Ray actor: store its node and logical GPU in the environment, also for the processes that it starts.

    The name is empty for an engine of several workers: its GPUs belong to placement groups, and on a CPU the workers
    are not in these.
    """
    import ray

    node = ray.get_runtime_context().get_node_id()[:6]
    os.environ[GPU_VARIABLE] = ",".join(f"{node}:{gpu}" for gpu in ray.get_gpu_ids())


def gpu_name() -> str:
    """The name that `name_gpu` stored."""
    return os.environ.get(GPU_VARIABLE, "")


def log(event: str) -> None:
    """Print a line: seconds since the epoch, the logical GPU, what happened on it."""
    print(f"{time.time():.6f} on logical GPU {gpu_name()}: {event}", flush=True)


def install_engine_sleep(worker: type[Any]) -> None:
    """Make ``vllm.v1.worker.cpu_worker.CPUWorker``, which is changed in place and once, obey calls to sleep."""
    if hasattr(worker, "_asleep"):
        return

    def sleep(self: Any, level: int = 1) -> None:
        self._asleep = frozenset(PARTS)
        for cache in self.model_runner.kv_caches:
            cache.fill_(GARBAGE)
        log("engine sleeps")

    def wake_up(self: Any, tags: Sequence[str] | None = None) -> None:
        self._asleep -= set(tags or PARTS)
        log(f"engine has its {' and '.join(tags or PARTS)} back")

    execute_model = worker.execute_model

    @functools.wraps(execute_model)
    def execute_awake(self: Any, *args: Any, **kwargs: Any) -> Any:
        if "kv_cache" in self._asleep:
            raise RuntimeError("The engine was asked to generate while its kv_cache sleeps.")
        return execute_model(self, *args, **kwargs)

    worker._asleep = frozenset()
    worker.sleep = sleep
    worker.wake_up = wake_up
    worker.execute_model = execute_awake
