"""OpenRLHF's training actors on a CPU. Importing this module, as each Ray worker that runs one does, prepares its
process."""

import openrlhf.trainer.ray.launcher as launcher

from openrlhf_gtpo.cpu import torch_cuda
from openrlhf_gtpo.openrlhf_seam import underlying
from openrlhf_gtpo.policy import PolicyActor

torch_cuda.install()


class CpuPolicyActor(PolicyActor):
    """The policy actor; the class stands here so that unpickling it imports this module."""


class CpuReferenceActor(underlying(launcher.ReferenceModelActor)):  # type: ignore[misc]
    """The reference model's actor; likewise."""
