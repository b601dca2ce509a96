"""LoRA adapters on their way to vLLM, which gets each weight with its adapter merged, one layer after the other.

A layer is merged while its weight is handed on and is what it was afterwards, bit by bit: taking the adapter's product
off again would leave rounding errors, which add up over the steps. So no more than one layer is held twice, and under
ZeRO-3, where a parameter is empty until it is gathered, base weight and adapter are whole when they meet."""

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
    """The parameters of a PEFT model but for its adapters, named as in the model without them."""
    return [
        (name.removeprefix("base_model.model.").replace(".base_layer.", "."), parameter)
        for name, parameter in model.named_parameters()
        if "lora_" not in name
    ]


@contextlib.contextmanager
def gathers_merged(module: ModuleType, model: Any) -> Iterator[None]:
    """While it lasts, the code of a module that gathers a weight of this PEFT model by
    ``deepspeed.zero.GatheredParameters([weight], ...)`` finds it merged.

    Args:
        module: one of OpenRLHF's that imports ``deepspeed``.
        model: whose adapters are merged.
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
