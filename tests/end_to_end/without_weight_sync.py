"""The driver with a controller that never sends weights to vLLM: what the sync test compares the real one with."""

import sys

from openrlhf_gtpo.cpu import platform

platform.prepare_process()

import openrlhf.trainer.ppo_trainer as ppo_trainer  # noqa: E402 (the CPU platform comes first)
import ray  # noqa: E402

from openrlhf_gtpo import train, trainers  # noqa: E402


class DeafTrainer(trainers.Trainer):
    """Skips OpenRLHF's weight broadcast."""

    def broadcast_to_vllm(self) -> None:
        """Do nothing."""


def bind_deaf_trainer(device: str) -> None:
    """Bind as the driver does, then put the deaf controller in the real one's place."""
    bind(device)
    ppo_trainer.PPOTrainer = ray.remote(DeafTrainer)


if __name__ == "__main__":
    bind, train._bind_controller_and_policy = train._bind_controller_and_policy, bind_deaf_trainer
    sys.exit(train.main())
