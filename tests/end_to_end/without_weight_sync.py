"""The driver with a controller that never sends weights to vLLM: what the sync test compares the real one with."""

import sys

from openrlhf_gtpo.cpu import platform

platform.prepare_process()

from openrlhf_gtpo import experience, train  # noqa: E402 (the CPU platform comes first)


class DeafTrainer(experience.Trainer):
    """Skips OpenRLHF's weight broadcast."""

    def broadcast_to_vllm(self) -> None:
        """Do nothing."""


if __name__ == "__main__":
    experience.Trainer = DeafTrainer  # type: ignore[misc]
    sys.exit(train.main())
