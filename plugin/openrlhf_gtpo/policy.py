"""Lives in the policy actors (DeepSpeed): makes sure of the engines that it is to feed, and puts GRPO-S's
objective in place.

GTPO uses OpenRLHF's token-level loss as it is.
"""

from typing import Any

import openrlhf.trainer.ray.ppo_actor as ppo_actor
import ray
import torch

from openrlhf_gtpo.loss import SequenceRatioLoss
from openrlhf_gtpo.openrlhf_seam import underlying
from openrlhf_gtpo.vllm_entropy import check_hook


class PolicyTrainer(ppo_actor.ActorPPOTrainer):
    """OpenRLHF's policy trainer, which asks every engine for its entropy hook before it opens the weight sync with it.

    Asked here, an engine without the hook, or one that died at its start, ends the run at once; OpenRLHF would
    wait five minutes for it to join the group. Elsewhere the question would make engines and policy start one
    after the other."""

    def __init__(self, *args: Any, vllm_engines: list[Any] | None = None, **kwargs: Any) -> None:
        if vllm_engines and torch.distributed.get_rank() == 0:
            for reports in ray.get([engine.entropy_hook_report.remote() for engine in vllm_engines]):
                check_hook(reports)
        super().__init__(*args, vllm_engines=vllm_engines, **kwargs)


class PolicyActor(underlying(ppo_actor.PolicyModelActor)):  # type: ignore[misc]
    """OpenRLHF's policy actor with our trainer and the objective of the chosen estimator."""

    def init_model_from_pretrained(self, strategy: Any, *args: Any, **kwargs: Any) -> Any:
        """As OpenRLHF's; afterwards the trainer's loss is GRPO-S's where that is the estimator (Eq. 10-11)."""
        ppo_actor.ActorPPOTrainer = PolicyTrainer  # the name that OpenRLHF's method makes the trainer by
        result = super().init_model_from_pretrained(strategy, *args, **kwargs)
        if strategy.args.algo.advantage.estimator == "grpo_s":
            self.trainer.actor_loss_fn = SequenceRatioLoss.like(self.trainer.actor_loss_fn)
        return result
