"""The driver with a controller that never sends weights to vLLM: what the sync test compares the real one with."""

import sys
from typing import Any

from openrlhf_gtpo import bindings, train


def bind_deaf_trainer(device: str, rollout: Any, guide: Any) -> None:
    """Bind as the driver does, then put a deaf controller in the real one's place."""
    bind(device, rollout, guide)

    import openrlhf.trainer.ppo_trainer as ppo_trainer  # once the driver has prepared this process
    import ray

    from openrlhf_gtpo.controller import trainers

    class DeafTrainer(trainers.Trainer):
        """Skips OpenRLHF's weight broadcast."""

        def broadcast_to_vllm(self) -> None:
            """Do nothing."""

    ppo_trainer.PPOTrainer = ray.remote(DeafTrainer)


if __name__ == "__main__":
    bind, bindings.bind = bindings.bind, bind_deaf_trainer
    sys.exit(train.main())
