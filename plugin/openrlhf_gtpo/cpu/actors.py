"""OpenRLHF's training actors on a CPU. Each Ray worker that runs one imports this module, which prepares its
process."""

from typing import Any

from openrlhf.trainer.ray import launcher, ppo_actor

from openrlhf_gtpo.cpu import torch_cuda
from openrlhf_gtpo.cpu.shared_prompts import SharedPromptsActor, loader
from openrlhf_gtpo.cpu.sleep import name_gpu
from openrlhf_gtpo.cpu.weight_sync import send_together
from openrlhf_gtpo.cpu.zero_gradients import CpuPolicyTrainer
from openrlhf_gtpo.host import replace
from openrlhf_gtpo.policy.actor import PolicyActor, ReferenceActor

torch_cuda.install()
for module in (ppo_actor, launcher):
    replace(module, Actor=SharedPromptsActor)


class CpuModel:
    """A training actor on a logical GPU, with attention in plain torch, for packed samples too.

    transformers builds the mask that separates packed sequences. The implementation is set here, since OpenRLHF's
    checks of the command line accept only flash-attention with packing.
    """

    def init_model_from_pretrained(self, strategy: Any, *args: Any, **kwargs: Any) -> Any:
        name_gpu()
        strategy.args.ds.attn_implementation = "sdpa"
        return super().init_model_from_pretrained(strategy, *args, **kwargs)  # type: ignore[misc]


class CpuPolicyActor(CpuModel, PolicyActor):
    """The policy actor. The class is in this module so that unpickling it imports the module."""

    trainer = CpuPolicyTrainer

    def init_model_from_pretrained(self, strategy: Any, *args: Any, **kwargs: Any) -> Any:
        """As OpenRLHF's, with our loader of micro-batches and our messages of weights."""
        replace(ppo_actor, DataLoader=loader(strategy.args.train.batch_size))
        super().init_model_from_pretrained(strategy, *args, **kwargs)
        send_together(self.trainer)


class CpuReferenceActor(CpuModel, ReferenceActor):
    """The reference model's actor; likewise."""
