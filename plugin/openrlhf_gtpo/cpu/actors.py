"""OpenRLHF's training actors on a CPU. Importing this module, as each Ray worker that runs one does, prepares its
process."""

from typing import Any

from openrlhf_gtpo.cpu import torch_cuda
from openrlhf_gtpo.cpu.sleep import name_gpu
from openrlhf_gtpo.policy.actor import PolicyActor, ReferenceActor

torch_cuda.install()


class CpuModel:
    """A training actor on a logical GPU whose model attends in plain torch, packed or not.

    transformers builds the mask that keeps packed sequences apart. Until it is here, OpenRLHF lets nothing but
    flash-attention's name stand beside packing.
    """

    def init_model_from_pretrained(self, strategy: Any, *args: Any, **kwargs: Any) -> Any:
        name_gpu()
        strategy.args.ds.attn_implementation = "eager"
        return super().init_model_from_pretrained(strategy, *args, **kwargs)  # type: ignore[misc]


class CpuPolicyActor(CpuModel, PolicyActor):
    """The policy actor; the class stands here so that unpickling it imports this module."""


class CpuReferenceActor(CpuModel, ReferenceActor):
    """The reference model's actor; likewise."""
