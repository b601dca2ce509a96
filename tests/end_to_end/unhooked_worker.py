"""The driver with engines whose sampler the entropy hook does not cover: what a vLLM to come may look like."""

import sys
from typing import Any

from openrlhf_gtpo.cpu.vllm_worker import CpuWorkerExtension


class UnhookedWorker(CpuWorkerExtension):
    """Reports what a worker with an unknown sampler would."""

    def entropy_hook_report(self) -> dict[str, Any]:
        """A sampler of a third kind."""
        return {"sampler": "vllm.v3.Sampler", "hooked": False, "vllm": "9.9"}


if __name__ == "__main__":
    from openrlhf_gtpo import bindings, train

    bindings.worker_extension = lambda device: "unhooked_worker.UnhookedWorker"
    sys.exit(train.main())
