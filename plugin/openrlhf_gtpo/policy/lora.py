"""Weight sync of a policy with LoRA adapters: vLLM gets each weight with its adapter merged, layer by layer.

A layer is merged only while its weight is sent, and its base weight is then restored from a reference, bit for bit:
subtracting the adapter's product would leave rounding errors, which add up over the steps. So only one layer is in
memory twice. Under ZeRO-3 a parameter is empty until it is gathered, so base weight and adapter are gathered together.
"""

import contextlib
from collections.abc import Iterator, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from deepspeed import zero
from peft.tuners.tuners_utils import BaseTunerLayer

__all__ = ["gathers_merged", "has_adapters", "plain_names"]


def has_adapters(model: Any) -> bool:
    """Whether it is a PEFT model."""
    return hasattr(model, "merge_adapter")


def plain_names(model: Any) -> list[tuple[str, torch.nn.Parameter]]:
    """The parameters of a PEFT model without its adapters, named as in the plain model."""
    return [
        (name.removeprefix("base_model.model.").replace(".base_layer.", "."), parameter)
        for name, parameter in model.named_parameters()
        if "lora_" not in name
    ]


@contextlib.contextmanager
def gathers_merged(module: ModuleType, model: Any) -> Iterator[None]:
    """A context in which ``deepspeed.zero.GatheredParameters([weight], ...)`` in a module yields merged weights.

    Args:
        module: one of OpenRLHF's that imports ``deepspeed``.
        model: the PEFT model whose adapters are merged.
    """
    adapted = (module for module in model.modules() if isinstance(module, BaseTunerLayer))
    layers: dict[int, Any] = {id(layer.get_base_layer().weight): layer for layer in adapted}

    @contextlib.contextmanager
    def gathered(parameters: Sequence[torch.nn.Parameter], **kwargs: Any) -> Iterator[None]:
        layer = layers.get(id(parameters[0]))
        if layer is None:
            with zero.GatheredParameters(parameters, **kwargs):
                yield
            return
        with zero.GatheredParameters(list(layer.parameters()), **kwargs), _merged(layer):
            yield

    deepspeed = module.deepspeed
    zero_of_module = SimpleNamespace(GatheredParameters=gathered)
    module.deepspeed = SimpleNamespace(zero=zero_of_module, module_inject=deepspeed.module_inject)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        module.deepspeed = deepspeed  # type: ignore[attr-defined]


@contextlib.contextmanager
def _merged(layer: Any) -> Iterator[None]:
    weight = layer.get_base_layer().weight
    before = weight.data
    layer.merge(safe_merge=True)  # into a copy
    try:
        yield
    finally:
        layer.unmerge()
        weight.data = before
