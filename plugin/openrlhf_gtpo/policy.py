"""Lives in the policy actors (DeepSpeed): puts GRPO-S's objective in place. GTPO uses OpenRLHF's token-level loss
as it is."""

from typing import Any

import openrlhf.trainer.ray.ppo_actor as ppo_actor

from openrlhf_gtpo.loss import SequenceRatioLoss
from openrlhf_gtpo.openrlhf_seam import underlying


class PolicyActor(underlying(ppo_actor.PolicyModelActor)):  # type: ignore[misc]
    """OpenRLHF's policy actor with the objective of the chosen estimator."""

    def init_model_from_pretrained(self, strategy: Any, *args: Any, **kwargs: Any) -> Any:
        """As OpenRLHF's; afterwards the trainer's loss is GRPO-S's where that is the estimator (Eq. 10-11)."""
        result = super().init_model_from_pretrained(strategy, *args, **kwargs)
        if strategy.args.algo.advantage.estimator == "grpo_s":
            self.trainer.actor_loss_fn = SequenceRatioLoss.like(self.trainer.actor_loss_fn)
        return result
