"""The driver with a controller that never sends weights to vLLM: what the sync test compares the real one with."""

import sys

from openrlhf_gtpo import train
from openrlhf_gtpo.driver import bindings


def bind_deaf_trainer(device: str) -> None:
    """Bind as the driver does, then put a deaf controller in the real one's place."""
    bind(device)

    import openrlhf.trainer.ppo_trainer as ppo_trainer  # once the driver has prepared this process
    import ray

    from openrlhf_gtpo.controller import trainers

    class DeafTrainer(trainers.Trainer):
        """Skips OpenRLHF's weight broadcast."""

        def broadcast_to_vllm(self) -> None:
            """Do nothing."""

    ppo_trainer.PPOTrainer = ray.remote(DeafTrainer)


if __name__ == "__main__":
    bind, bindings.bind_actors = bindings.bind_actors, bind_deaf_trainer
    sys.exit(train.main())
