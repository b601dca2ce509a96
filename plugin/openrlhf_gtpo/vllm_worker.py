"""vLLM's worker with the entropy hook.

`openrlhf_gtpo.vllm_entropy.engine_kwargs` names the class below as ``worker_extension_cls``, so vLLM imports this
module in each of its workers, on every node. The import installs the hook before the first token.
"""

import threading
from typing import Any

from tqdm import tqdm

from openrlhf_gtpo.engine import hook, repeatable

hook.install()
repeatable.install()

# By default tqdm's lock is a semaphore in shared memory, which would stay there when Ray kills the engine at the end
# of a run. No other process uses it here, so a lock between threads is enough.
tqdm.set_lock(threading.RLock())


class EntropyWorkerExtension:
    """Methods that vLLM adds to its worker class; called by ``collective_rpc``."""

    def entropy_hook_report(self) -> dict[str, Any]:
        """Which sampler this worker uses, and whether the hook covers it.

        Returns:
            ``{"sampler": dotted name or None, "hooked": bool, "vllm": version}``. A worker without a sampler (not the
            last pipeline stage) counts as hooked: it samples nothing.
        """
        sampler = getattr(self.model_runner, "sampler", None)  # type: ignore[attr-defined]
        name = None if sampler is None else f"{type(sampler).__module__}.{type(sampler).__qualname__}"
        return {"sampler": name, "hooked": sampler is None or hook.is_hooked(sampler), "vllm": hook.version_found()}
