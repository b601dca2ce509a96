"""OpenRLHF's training actors on a CPU. Importing this module, as each Ray worker that runs one does, prepares its
process."""

from typing import Any

import openrlhf.trainer.ray.launcher as launcher

from openrlhf_gtpo.cpu import torch_cuda
from openrlhf_gtpo.openrlhf_seam import underlying
from openrlhf_gtpo.policy import PolicyActor

torch_cuda.install()


class PlainAttention:
    """A training actor whose model attends in plain torch, packed or not: transformers builds the mask that keeps
    packed sequences apart. OpenRLHF lets nothing but flash-attention's name stand beside packing until it is here."""

    def init_model_from_pretrained(self, strategy: Any, *args: Any, **kwargs: Any) -> Any:
        strategy.args.ds.attn_implementation = "eager"
        return super().init_model_from_pretrained(strategy, *args, **kwargs)  # type: ignore[misc]


class CpuPolicyActor(PlainAttention, PolicyActor):
    """The policy actor; the class stands here so that unpickling it imports this module."""


class CpuReferenceActor(PlainAttention, underlying(launcher.ReferenceModelActor)):  # type: ignore[misc]
    """The reference model's actor; likewise."""
