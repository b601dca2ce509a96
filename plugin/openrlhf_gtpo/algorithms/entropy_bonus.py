"""An entropy bonus that is held at a target by a controller, as TRL has it (huggingface/trl#6140) after Skywork-OR1
(arXiv 2505.22312). Plain numbers: every rank has the same ones, since the entropy that they follow is the mean over
all ranks."""

from dataclasses import dataclass


@dataclass
class EntropyController:
    """The weight of the entropy in the loss, policy loss - weight * mean entropy.

    After each update with mean entropy e the coefficient goes up by ``delta`` where e <= target and down by it
    elsewhere, within its bounds. It is applied to the next update only where e <= target. Before the first update it
    is applied.
    """

    target: float
    """Nats, mean over tokens of the policy in training."""
    coefficient: float = 0.0
    delta: float = 0.005
    least: float = 0.0
    most: float = 1.0
    entropy: float | None = None
    """Of the last update, nats."""

    @property
    def applied(self) -> float:
        """The weight in the next update's loss."""
        return self.coefficient if self.entropy is None or self.entropy <= self.target else 0.0

    def update(self, entropy: float) -> None:
        """After an update.

        Args:
            entropy: mean over the update's tokens on all ranks, in nats.
        """
        step = self.delta if entropy <= self.target else -self.delta
        self.coefficient = min(max(self.coefficient + step, self.least), self.most)
        self.entropy = entropy

    def state(self) -> dict[str, float | None]:
        """What a checkpoint keeps."""
        return {"coefficient": self.coefficient, "entropy": self.entropy}

    def restore(self, state: dict[str, float | None]) -> None:
        """Continue where `state` was taken; the flags of this run keep the bounds."""
        coefficient = state["coefficient"]
        assert coefficient is not None
        self.coefficient = min(max(coefficient, self.least), self.most)
        self.entropy = state["entropy"]
