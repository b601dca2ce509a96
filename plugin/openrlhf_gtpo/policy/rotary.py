"""Rotary frequencies in float32, as transformers means them and vLLM computes them.

While DeepSpeed's ZeRO-3 loads a model in bfloat16, it rounds every floating-point tensor that is made, and with them
the frequencies: 0.7499 becomes 0.75. Position times frequency is an angle, so that at position 4,096 a policy would
turn by radians more or less than the engine that sampled its responses, without a word."""

from typing import Any

import torch
from openrlhf.models import Actor
from transformers import PreTrainedModel

from openrlhf_gtpo.errors import UserError

__all__ = ["FrequenciesRounded", "PreciseActor", "restore_frequencies"]


class FrequenciesRounded(UserError):
    """A model's rotary frequencies were rounded, and the model has no way to make them anew."""


class PreciseActor(Actor):
    """OpenRLHF's model for policy and reference, with its rotary frequencies in float32 however it was loaded."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        restore_frequencies(self.model)


def restore_frequencies(model: torch.nn.Module) -> None:
    """Make the rotary frequencies of a transformers model anew where they are not in float32.

    Raises:
        FrequenciesRounded: the model's own initialisation leaves them out.
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
                    "cannot be made anew, so that policy and engine would differ at long positions: train it with "
                    "--ds.zero_stage 2."
                )
    for child in module.children():
        _restore(child, owner)
