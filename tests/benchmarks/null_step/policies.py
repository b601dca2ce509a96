"""Policy actors, ours and OpenRLHF's, whose model, optimiser and weight sync do nothing. Replay buffer and loss are
real."""

import time
from types import SimpleNamespace
from typing import Any

import openrlhf.trainer.ray.ppo_actor as ppo_actor
import torch

from null_step import trace
from openrlhf_gtpo.cpu.actors import CpuModel, CpuPolicyActor
from openrlhf_gtpo.openrlhf_internals import plain_class

LOGPROB = -0.3
_OpenRLHFTrainer = ppo_actor.ActorPPOTrainer


class WithoutModel:
    """Mixin of a policy actor."""

    def init_model_from_pretrained(self: Any, strategy: Any, *args: Any, **kwargs: Any) -> None:
        trace.begin("policy")
        _OpenRLHFTrainer._init_vllm_sync_group = lambda self, backend: None
        _OpenRLHFTrainer.broadcast_to_vllm = lambda self: time.sleep(trace.SETTINGS["seconds"]["weights"])
        super().init_model_from_pretrained(strategy, *args, **kwargs)  # type: ignore[misc]
        self.actor.forward = _forward
        self.strategy.backward = lambda *_, **__: None
        self.strategy.optimizer_step = lambda *_, **__: None
        self.strategy.get_grad_norm = lambda *_, **__: 0.0


_weight = torch.zeros(1, requires_grad=True)


def _forward(
    sequences: torch.Tensor,
    action_mask: torch.Tensor,
    attention_mask: torch.Tensor | None = None,
    return_output: bool = False,
    **_: Any,
) -> Any:
    """As ``openrlhf.models.Actor.forward``: the same log-probability for every token."""
    seconds = trace.SETTINGS["seconds"]["train" if torch.is_grad_enabled() else "forward"]
    time.sleep(seconds * len(sequences) / trace.SETTINGS["responses"])
    logprobs = torch.full(action_mask.shape, LOGPROB) + _weight
    return (logprobs, SimpleNamespace(entropy=torch.zeros(sequences.shape))) if return_output else logprobs


class OurPolicyActor(WithoutModel, CpuPolicyActor):
    """The product's actor."""


class PlainPolicyActor(WithoutModel, CpuModel, plain_class(ppo_actor.PolicyModelActor)):  # type: ignore[misc]
    """OpenRLHF's actor."""
