"""Puts `openrlhf_gtpo.algorithms.entropy_bonus` into OpenRLHF's policy trainer: measures the policy's entropy over
each optimiser update and all ranks, and sets the weight that OpenRLHF's own entropy term has in the next."""

from typing import Any

import torch

from openrlhf_gtpo.algorithms.entropy_bonus import EntropyController

__all__ = ["STATE", "EntropyBonus", "controller_of"]

STATE = "entropy_bonus"
"""The key of the controller's state in a checkpoint."""


def controller_of(args: Any) -> EntropyController | None:
    """From OpenRLHF's nested ``args``; None without ``--actor.entropy_target``."""
    bonus = args.plugin.entropy_bonus
    return None if bonus is None else EntropyController(**bonus)


class EntropyBonus:
    """One process's part: its micro-batches' entropies until an update is complete.

    Args:
        controller: whose weight is applied.
        strategy: OpenRLHF's, which sums over ranks.
        actor: OpenRLHF's Actor, whose outputs are read.
    """

    def __init__(self, controller: EntropyController, strategy: Any, actor: torch.nn.Module) -> None:
        self.controller = controller
        self._strategy = strategy
        self._output: torch.Tensor | None = None
        self._sum = self._tokens = 0.0
        actor.register_forward_hook(self._see)

    def _see(self, module: torch.nn.Module, arguments: Any, output: Any) -> None:
        # Without return_output, as for old log-probabilities, the Actor returns a tensor.
        self._output = output[1].entropy.detach() if isinstance(output, tuple) else None

    def begin(self, args: Any, info: dict[str, Any]) -> None:
        """Before a micro-batch: set OpenRLHF's coefficient, and log it.

        Args:
            args: OpenRLHF's nested ones of this process, changed in place.
            info: of the micro-batch.
        """
        args.actor.entropy_coef = self.controller.applied
        info["entropy_bonus/coefficient"] = torch.tensor(self.controller.applied)

    def end(self, action_mask: torch.Tensor, *, updated: bool) -> None:
        """After a micro-batch.

        Args:
            action_mask: (B, A), 1 on response tokens.
            updated: whether an optimiser update took place after it, on all ranks alike.
        """
        assert self._output is not None, "the actor was called with return_output"
        entropy = self._output[:, -action_mask.shape[1] :]
        self._sum += torch.where(action_mask.bool(), entropy, 0.0).sum().item()
        self._tokens += action_mask.sum().item()
        if updated:
            total = self._strategy.all_reduce({"sum": self._sum, "tokens": self._tokens}, op="sum")
            self.controller.update(total["sum"] / max(total["tokens"], 1.0))
            self._sum = self._tokens = 0.0
