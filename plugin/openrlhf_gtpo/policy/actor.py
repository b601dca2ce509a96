"""Runs in the training actors (DeepSpeed). The policy's actor checks the engines' entropy hook, and trains on the
objective that `openrlhf_gtpo.policy.objective` gives for the run.
"""

import math
from types import SimpleNamespace
from typing import Any

import openrlhf.trainer.ppo_utils.replay_buffer as replay_buffer
import openrlhf.trainer.ray.launcher as launcher
import openrlhf.trainer.ray.ppo_actor as ppo_actor
import ray
import torch
from openrlhf.trainer.ppo_utils.experience import Experience

from openrlhf_gtpo.algorithms.partition import balanced_partition
from openrlhf_gtpo.openrlhf_internals import plain_class
from openrlhf_gtpo.policy.kept import KeptTokens
from openrlhf_gtpo.policy.lora import gathers_merged, has_adapters, plain_names
from openrlhf_gtpo.policy.objective import loss_of, update_parts
from openrlhf_gtpo.policy.passes import stopped_after
from openrlhf_gtpo.policy.ports import LowPort
from openrlhf_gtpo.policy.rotary import PreciseActor
from openrlhf_gtpo.vllm_entropy import check_hook

# OpenRLHF creates policy and reference by this name; each of their processes imports this module.
ppo_actor.Actor = launcher.Actor = PreciseActor
# As in the controller: micro-batches of --train.dynamic_batch_enable, in milliseconds instead of seconds.
replay_buffer.get_seqlen_balanced_partitions = balanced_partition


class PolicyTrainer(ppo_actor.ActorPPOTrainer):
    """OpenRLHF's policy trainer, which checks every engine's entropy hook before it opens the weight sync with it.

    At this place an engine without the hook, or one that died at its start, ends the run at once; OpenRLHF would wait
    five minutes for it to join the group. An earlier check would make engines and policy start one after the other.
    """

    actor: Any
    actor_loss_fn: torch.nn.Module
    planned: int | None = None
    """Optimiser updates of the next step; None for those of ``--train.max_epochs`` passes."""
    _updates = 0
    """Optimiser updates of the step so far."""

    def __init__(
        self, strategy: Any, actor: Any, *args: Any, vllm_engines: list[Any] | None = None, **kwargs: Any
    ) -> None:
        if vllm_engines and torch.distributed.get_rank() == 0:
            for reports in ray.get([engine.entropy_hook_report.remote() for engine in vllm_engines]):
                check_hook(reports)
        super().__init__(strategy, actor, *args, vllm_engines=vllm_engines, **kwargs)
        self.actor_loss_fn = loss_of(self.args, self.actor_loss_fn)
        self.update_parts = update_parts(strategy, actor)
        self.kept = KeptTokens(actor.model.module, packed=actor.packing_samples)

    def ppo_train(self, kl_ctl: float) -> Any:
        """As OpenRLHF's, with the number of updates that it made. A planned number is made by whole passes and then
        the beginning of one; a number below one pass is the beginning of the first."""
        self._updates = 0
        if self.planned is None:
            status = super().ppo_train(kl_ctl)
        else:
            of_update, buffer = max(1, self.strategy.accumulated_gradient), self.replay_buffer
            of_pass = len(buffer) // buffer.sample_batch_size
            self.max_epochs = math.ceil(self.planned * of_update / of_pass)
            with stopped_after(ppo_actor, self.planned * of_update):
                status = super().ppo_train(kl_ctl)
        return {**status, "policy/updates": float(self._updates)}

    def training_step(self, experience: Experience, kl_ctl: float, step: int, *args: Any, **kwargs: Any) -> Any:
        """As OpenRLHF's; shows the micro-batch to a loss that has to see more of it than its arguments."""
        if see := getattr(self.actor_loss_fn, "see", None):
            see(experience)
        for part in self.update_parts:
            part.begin(experience)
        with self.kept.of(experience.info.pop("kept", None), experience.attention_mask):
            status = super().training_step(experience, kl_ctl, step, *args, **kwargs)
        updated = self._updates_after(step)
        self._updates += updated
        for part in self.update_parts:
            part.end(experience, updated=updated)
        return status

    def _updates_after(self, step: int) -> bool:
        """Whether an optimiser update follows a micro-batch.

        Args:
            step: the micro-batch's number in its epoch, from 0.
        """
        if self.args.train.dynamic_batch_enable:
            return bool(self.replay_buffer.dynamic_optimizer_step[step])
        return (step + 1) % max(1, self.strategy.accumulated_gradient) == 0

    def broadcast_to_vllm(self) -> None:
        """As OpenRLHF's. With LoRA it sends the merged weights by the names that vLLM knows; OpenRLHF would send the
        adapters' matrices, which vLLM's model does not have."""
        actor = self.actor
        model = actor.model.module
        if not has_adapters(model):
            super().broadcast_to_vllm()
            return
        plain = SimpleNamespace(named_parameters=lambda: iter(plain_names(model)))
        self.actor = SimpleNamespace(model=SimpleNamespace(module=plain))  # the method reads only this
        try:
            with gathers_merged(ppo_actor, model):
                super().broadcast_to_vllm()
        finally:
            self.actor = actor


class PolicyActor(LowPort, plain_class(ppo_actor.PolicyModelActor)):  # type: ignore[misc]
    """OpenRLHF's policy actor with our trainer."""

    def init_model_from_pretrained(self, strategy: Any, *args: Any, **kwargs: Any) -> Any:
        """As OpenRLHF's, with our trainer, whose parts continue where the checkpoint was taken."""
        ppo_actor.ActorPPOTrainer = PolicyTrainer  # OpenRLHF's method creates the trainer by this name
        result = super().init_model_from_pretrained(strategy, *args, **kwargs)
        for part in self.trainer.update_parts:
            if part.name in self.checkpoint_states:
                part.controller.restore(self.checkpoint_states[part.name])
        return result

    def plan_updates(self, number: int) -> None:
        """Make this number of optimiser updates in the next step, the same on every rank."""
        self.trainer.planned = number

    def forward(
        self, sequences: Any, action_mask: Any, attention_mask: Any, *args: Any, kept: Any = None, **kwargs: Any
    ) -> Any:
        """As OpenRLHF's: log-probabilities of a micro-batch.

        Args:
            kept: as for `openrlhf_gtpo.policy.kept.KeptTokens.of`; the others are OpenRLHF's.
        """
        with self.trainer.kept.of(kept, attention_mask):
            return super().forward(sequences, action_mask, attention_mask, *args, **kwargs)

    def save_checkpoint(
        self, tag: str, client_states: dict[str, Any] | None = None, *args: Any, **kwargs: Any
    ) -> None:
        """As OpenRLHF's; with the states of the trainer's parts, which are the same on every rank."""
        states = {part.name: part.controller.state() for part in self.trainer.update_parts}
        super().save_checkpoint(tag, {**(client_states or {}), **states}, *args, **kwargs)


class ReferenceActor(LowPort, plain_class(launcher.ReferenceModelActor)):  # type: ignore[misc]
    """OpenRLHF's reference actor. The class is in this module so that unpickling it imports the module."""
