"""Puts `openrlhf_gtpo.algorithms.entropy_bonus` into OpenRLHF's policy trainer: measures the policy's entropy over
each optimiser update and all ranks, and sets the weight that OpenRLHF's own entropy term has in the next."""

from typing import Any

import torch
from openrlhf.trainer.ppo_utils.experience import Experience

from openrlhf_gtpo.algorithms.entropy_bonus import EntropyController


class EntropyBonus:
    """One process's part: its micro-batches' entropies until an update is complete.

    Args:
        controller: whose weight is applied.
        strategy: OpenRLHF's, which sums over ranks. The coefficient in its ``args`` is changed.
        actor: OpenRLHF's Actor, whose outputs are read.
    """

    name = "entropy_bonus"
    """The key of the controller's state in a checkpoint."""

    def __init__(self, controller: EntropyController, strategy: Any, actor: torch.nn.Module) -> None:
        self.controller = controller
        self._strategy = strategy
        self._output: torch.Tensor | None = None
        self._sum = self._tokens = 0.0
        actor.register_forward_hook(self._see)

    def _see(self, module: torch.nn.Module, arguments: Any, output: Any) -> None:
        # Without return_output, as for old log-probabilities, the Actor returns a tensor.
        self._output = output[1].entropy.detach() if isinstance(output, tuple) else None

    def begin(self, experience: Experience) -> None:
        """Before a micro-batch: set OpenRLHF's coefficient, and log it."""
        self._strategy.args.actor.entropy_coef = self.controller.applied
        experience.info["entropy_bonus/coefficient"] = torch.tensor(self.controller.applied)

    def end(self, experience: Experience, *, updated: bool) -> None:
        """After a micro-batch.

        Args:
            experience: the micro-batch, whose ``action_mask`` is (B, A).
            updated: whether an optimiser update took place after it, on all ranks alike.
        """
        assert self._output is not None, "the actor was called with return_output"
        action_mask = experience.action_mask
        entropy = self._output[:, -action_mask.shape[1] :]
        self._sum += torch.where(action_mask.bool(), entropy, 0.0).sum().item()
        self._tokens += action_mask.sum().item()
        if updated:
            total = self._strategy.all_reduce({"sum": self._sum, "tokens": self._tokens}, op="sum")
            self.controller.update(total["sum"] / max(total["tokens"], 1.0))
            self._sum = self._tokens = 0.0
