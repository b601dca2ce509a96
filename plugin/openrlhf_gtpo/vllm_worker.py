"""vLLM's worker with the entropy hook. vLLM imports this module in each of its workers, on whatever node, because
`openrlhf_gtpo.vllm_entropy.engine_kwargs` names the class below as ``worker_extension_cls``; importing it installs
the hook there, before the first token, and nowhere else.
"""

import threading
from typing import Any

from tqdm import tqdm

from openrlhf_gtpo.engine import hook as vllm_hook

vllm_hook.install()

# A progress bar's lock is one between processes, unless told otherwise. Nobody shares it here, and Ray kills an engine
# at the end of a run, so that the semaphore of such a lock would be left in shared memory for ever.
tqdm.set_lock(threading.RLock())


class EntropyWorkerExtension:
    """Methods that vLLM adds to its worker class; called by ``collective_rpc``."""

    def entropy_hook_report(self) -> dict[str, Any]:
        """Which sampler this worker uses and whether the hook covers it.

        Returns:
            ``{"sampler": dotted name or None, "hooked": bool, "vllm": version}``. A worker without a sampler (no last
            pipeline stage) counts as hooked: it samples nothing.
        """
        sampler = getattr(self.model_runner, "sampler", None)  # type: ignore[attr-defined]
        name = None if sampler is None else f"{type(sampler).__module__}.{type(sampler).__qualname__}"
        return {
            "sampler": name,
            "hooked": sampler is None or vllm_hook.is_hooked(sampler),
            "vllm": vllm_hook.version_found(),
        }
