"""Runs in the policy's actors and in vLLM's workers: emulates sleep, with which engine and policy share a GPU.

On a CPU there is no GPU memory to free. The visible effects are emulated: each change is logged in one line, a
sleeping engine refuses to generate, and its cache is lost when it wakes up.
"""

import functools
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

PARTS = ("weights", "kv_cache")
GARBAGE = 1000.0
"""Value of the cache after a sleep. It is finite, since attention multiplies masked positions by 0."""


NAME = "OPENRLHF_GTPO_LOGICAL_GPU"


def name_gpu() -> None:
    """In a Ray actor: store its node and logical GPU in the environment, also for the processes that it starts.

    The name is empty for an engine of several workers: its GPUs belong to placement groups, and on a CPU the workers
    are not in these.
    """
    import ray

    node = ray.get_runtime_context().get_node_id()[:6]
    os.environ[NAME] = ",".join(f"{node}:{gpu}" for gpu in ray.get_gpu_ids())


def gpu_id() -> str:
    """The name that ``name_gpu`` stored."""
    return os.environ.get(NAME, "")


def told(who: str, what: str, do: Callable[..., Any]) -> Callable[..., Any]:
    """``do``, followed by a line of log: seconds since the epoch, GPU, who, what."""

    @functools.wraps(do)
    def done(*args: Any, **kwargs: Any) -> Any:
        result = do(*args, **kwargs)
        _tell(who, what)
        return result

    return done


def _tell(who: str, what: str) -> None:
    print(f"{time.time():.6f} on logical GPU {gpu_id()}: {who} {what}", flush=True)


def install_engine_sleep(worker: type[Any]) -> None:
    """Make vLLM's CPU worker sleep, a call that it would ignore.

    Args:
        worker: ``vllm.v1.worker.cpu_worker.CPUWorker``; changed in place, once.
    """
    if hasattr(worker, "_asleep"):
        return

    def sleep(self: Any, level: int = 1) -> None:
        self._asleep = frozenset(PARTS)
        for cache in self.model_runner.kv_caches:
            cache.fill_(GARBAGE)
        _tell("engine", "sleeps")

    def wake_up(self: Any, tags: Sequence[str] | None = None) -> None:
        self._asleep -= set(tags or PARTS)
        _tell("engine", f"has its {' and '.join(tags or PARTS)} back")

    def awake(call: Callable[..., Any], part: str) -> Callable[..., Any]:
        @functools.wraps(call)
        def called(self: Any, *args: Any, **kwargs: Any) -> Any:
            if part in self._asleep:
                raise RuntimeError(f"The engine's {call.__name__} was called while its {part} sleep.")
            return call(self, *args, **kwargs)

        return called

    worker._asleep = frozenset()
    worker.sleep = sleep
    worker.wake_up = wake_up
    worker.execute_model = awake(worker.execute_model, "kv_cache")
