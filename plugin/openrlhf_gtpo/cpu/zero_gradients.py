"""No backward pass for responses whose gradient is zero, on a CPU: those of groups that are all correct or all wrong,
which are most of the groups once a policy has learned its task."""

from typing import Any

import torch

from openrlhf_gtpo.host import overrides
from openrlhf_gtpo.policy.actor import PolicyTrainer


def teaches(experience: Any) -> bool:
    """Whether an advantage of OpenRLHF's `Experience` is not 0."""
    return bool(experience.advantages.any())


@overrides("training_step")
class CpuPolicyTrainer(PolicyTrainer):
    """The policy's trainer, which only computes the metrics of a micro-batch whose gradient is zero."""

    strategy: Any

    def training_step(self, experience: Any, kl_ctl: float, step: int, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """As OpenRLHF's: the sum of gradients and the metrics are the same, to the last bit."""
        if not self._is_without_gradient(experience):
            return super().training_step(experience, kl_ctl, step, *args, **kwargs)
        strategy = self.strategy
        self.strategy = _WithoutBackward(strategy)
        try:
            with torch.no_grad():
                return super().training_step(experience, kl_ctl, step, *args, **kwargs)
        finally:
            self.strategy = strategy

    def _is_without_gradient(self, experience: Any) -> bool:
        """Not where DeepSpeed has work in the backward pass: several ranks wait for each other in it, and the last
        micro-batch of an update completes the gradients."""
        args, engine = self.args, self.actor.model
        advantages_alone = not (args.algo.kl.use_loss or self.aux_loss or args.actor.entropy_coef)
        alone = torch.distributed.get_world_size() == 1 and args.ds.zero_stage < 3 and not args.ds.adam_offload
        is_last = args.train.dynamic_batch_enable or engine.is_gradient_accumulation_boundary()
        return advantages_alone and alone and not is_last and not teaches(experience)


class _WithoutBackward:
    """OpenRLHF's strategy, whose backward pass does nothing."""

    def __init__(self, strategy: Any) -> None:
        self._strategy = strategy

    def backward(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return getattr(self._strategy, name)
