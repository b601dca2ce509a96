"""Keeps the policy's rotary frequencies in float32, as transformers defines them and vLLM computes them.

While DeepSpeed's ZeRO-3 loads a model in bfloat16, it rounds every new floating-point tensor, so the frequencies too:
0.7499 becomes 0.75. An angle is position times frequency. At position 4,096 the policy's angles would differ by
radians from those of the engine that sampled its responses, without any error."""

from typing import Any

import torch
from openrlhf.models import Actor
from transformers import PreTrainedModel

from openrlhf_gtpo.errors import UserError

__all__ = ["FrequenciesRounded", "PreciseActor", "restore_frequencies"]


class FrequenciesRounded(UserError):
    """A model's rotary frequencies were rounded, and the model cannot compute them again."""


class PreciseActor(Actor):
    """OpenRLHF's model of policy and reference, with rotary frequencies in float32."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        restore_frequencies(self.model)


def restore_frequencies(model: torch.nn.Module) -> None:
    """Compute the rotary frequencies of a transformers model again where they were rounded.

    Args:
        model: changed in place.

    Raises:
        FrequenciesRounded: the model's own initialisation does not set them.
    """
    _restore(model, None)


def _restore(module: torch.nn.Module, owner: PreTrainedModel | None) -> None:
    owner = module if isinstance(module, PreTrainedModel) else owner
    rounded = {
        name: buffer
        for name, buffer in module.named_buffers(recurse=False)
        if name.endswith("inv_freq") and buffer.dtype in (torch.bfloat16, torch.float16)
    }
    if rounded:
        for name, buffer in rounded.items():
            setattr(module, name, torch.full_like(buffer, torch.nan, dtype=torch.float32))
        if owner is not None:
            owner._init_weights(module)  # a rotary module has nothing else to initialise
        for name in rounded:
            if getattr(module, name).isnan().any():
                raise FrequenciesRounded(
                    f"ZeRO-3 rounded the rotary frequencies of this model ({type(module).__name__}.{name}) and they "
                    "cannot be computed again, so policy and engine would differ at long positions: train it with "
                    "--ds.zero_stage 2."
                )
    for child in module.children():
        _restore(child, owner)
