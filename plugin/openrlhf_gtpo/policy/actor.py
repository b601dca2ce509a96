"""Runs in the training actors (DeepSpeed): the policy's actor checks the engines' entropy hook, trains GRPO-S on its
own loss (GTPO's is OpenRLHF's), and sends LoRA's weights merged."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import ray
import torch
from openrlhf.trainer.ray import launcher, ppo_actor

from openrlhf_gtpo.algorithms.estimators import ESTIMATORS
from openrlhf_gtpo.errors import UserError
from openrlhf_gtpo.host import overrides, plain_class, replace
from openrlhf_gtpo.policy.lora import gathers_merged, has_adapters, plain_names
from openrlhf_gtpo.policy.loss import SequenceRatioLoss
from openrlhf_gtpo.policy.ports import LowPort
from openrlhf_gtpo.policy.rotary import PreciseActor
from openrlhf_gtpo.resume import FILE
from openrlhf_gtpo.vllm_entropy import check_hook

# OpenRLHF creates policy and reference by this name; each of their processes imports this module.
for module in (ppo_actor, launcher):
    replace(module, Actor=PreciseActor)


class LeftOver(UserError):
    """Gradients of a step would be a part of the next one's first update."""


@overrides("broadcast_to_vllm", "ppo_train")
class PolicyTrainer(ppo_actor.ActorPPOTrainer):
    """OpenRLHF's policy trainer, which checks every engine's entropy hook before it opens the weight sync with it.

    At this place an engine without the hook, or one that died at its start, ends the run at once; OpenRLHF would wait
    five minutes for it to join the group. An earlier check would make engines and policy start one after the other.
    """

    actor: Any
    actor_loss_fn: torch.nn.Module

    def __init__(
        self, strategy: Any, actor: Any, *args: Any, vllm_engines: list[Any] | None = None, **kwargs: Any
    ) -> None:
        if vllm_engines and torch.distributed.get_rank() == 0:
            for reports in ray.get([engine.entropy_hook_report.remote() for engine in vllm_engines]):
                check_hook(reports)
        super().__init__(strategy, actor, *args, vllm_engines=vllm_engines, **kwargs)
        estimator = ESTIMATORS.get(self.args.algo.advantage.estimator)
        if estimator is not None and estimator.per_response:
            self.actor_loss_fn = SequenceRatioLoss.like(self.actor_loss_fn)

    def ppo_train(self, kl_ctl: float) -> dict[str, Any]:
        """As OpenRLHF's, which leaves nothing over for the next step."""
        status = super().ppo_train(kl_ctl)
        engine = self.actor.model
        if left := engine.micro_steps % engine.gradient_accumulation_steps():
            raise LeftOver(
                f"{left} micro-batches of this step stay in DeepSpeed's gradient accumulation, so its batch was no "
                "whole number of updates: please report this with your command line."
            )
        return status

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


@contextlib.contextmanager
def without_sleep_buffers(optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Inside, the optimizer's state is what training needs.

    While the policy sleeps, DeepSpeed's ZeRO-3 keeps Adam's moments in host memory, and notes those buffers in the
    optimizer's state. In a checkpoint they are 8 bytes a parameter more, and a run that is resumed would load them to
    the GPU and keep the moments of a sleeping policy there.
    """
    buffers = {
        key: {name: state.pop(name) for name in [*state] if name.endswith("_offload_buffer")}
        for key, state in optimizer.state.items()
    }
    try:
        yield
    finally:  # to pin new ones takes half a minute
        for key, kept in buffers.items():
            optimizer.state[key].update(kept)


@overrides("_get_free_port", "init_model_from_pretrained", "save_checkpoint")
class PolicyActor(LowPort, plain_class(ppo_actor.PolicyModelActor)):  # type: ignore[misc]
    """OpenRLHF's policy actor with our trainer."""

    trainer: ClassVar = PolicyTrainer

    def init_model_from_pretrained(self, *args: Any, **kwargs: Any) -> Any:
        """As OpenRLHF's, with our trainer."""
        replace(ppo_actor, ActorPPOTrainer=self.trainer)  # OpenRLHF's method creates the trainer by this name
        return super().init_model_from_pretrained(*args, **kwargs)

    def save_checkpoint(self, tag: str, *args: Any, **kwargs: Any) -> None:
        """As OpenRLHF's, without DeepSpeed's buffers, and with what the checkpoint is of."""
        optimizer = self.actor.model.optimizer  # DeepSpeed's, around Adam; Adam itself without ZeRO
        with without_sleep_buffers(getattr(optimizer, "optimizer", optimizer)):
            super().save_checkpoint(tag, *args, **kwargs)
        folder = Path(self.strategy.args.ckpt.path, "_actor", tag)
        if self.strategy.is_rank_0() and folder.is_dir():  # none with --ckpt.disable_ds
            (folder / FILE).write_text(self.strategy.args.checkpoint, encoding="utf-8")


@overrides("_get_free_port")
class ReferenceActor(LowPort, plain_class(launcher.ReferenceModelActor)):  # type: ignore[misc]
    """OpenRLHF's reference actor. The class is in this module so that unpickling it imports the module."""
