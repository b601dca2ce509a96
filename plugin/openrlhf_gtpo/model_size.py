"""The size of a policy, out of its configuration, without its weights."""

import functools
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MERGED = re.compile(r"(?<=\.)([qkv]|gate|up)_proj\.")
"""Weights of a layer's attention that an engine holds as one, and those of its MLP."""
QWEN_FIELDS = ["hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads"]
QWEN_FIELDS += ["vocab_size", "tie_word_embeddings"]
QWEN = {
    "Qwen2.5-0.5B": (896, 4864, 24, 14, 2, 151_936, True),
    "Qwen2.5-1.5B": (1536, 8960, 28, 12, 2, 151_936, True),
    "Qwen2.5-7B": (3584, 18944, 28, 28, 4, 152_064, False),
    "Qwen2.5-32B": (5120, 27648, 64, 40, 8, 152_064, False),
}
"""The models of the launch scripts, for a plan on a machine that has not downloaded them."""


@dataclass(frozen=True)
class ModelSize:
    """What memory and disk depend on."""

    parameters: int
    largest_layer: int
    """Parameters of the module that has most of its own, which ZeRO-3 gathers at once."""
    vocabulary: int
    cache_bytes: int
    """KV cache of one token in bfloat16."""
    layer_inputs: int
    """Numbers that enter the layers for one token, which gradient checkpointing keeps."""
    weights: tuple[int, ...]
    """Parameters of each tensor that an engine holds."""


@functools.cache
def size_of(name: str) -> ModelSize | None:
    """The size of a model in a folder, of a hub id in the cache, or of `QWEN`; None where it is not known."""
    config = config_of(name)
    if config is None:
        return None
    import torch
    from transformers import AutoModelForCausalLM

    try:
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config, trust_remote_code=True)
    except Exception:  # a model's own program may raise anything
        return None
    text = config.get_text_config()
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    weights: Counter[str] = Counter()
    for weight, parameter in model.named_parameters():
        weights[MERGED.sub("merged.", weight)] += parameter.numel()
    return ModelSize(
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        largest_layer=max(sum(p.numel() for p in module.parameters(recurse=False)) for module in model.modules()),
        vocabulary=text.vocab_size,
        cache_bytes=2 * 2 * text.num_hidden_layers * heads * width,
        layer_inputs=text.num_hidden_layers * text.hidden_size,
        weights=tuple(weights.values()),
    )


def positions_of(name: str) -> int | None:
    """Tokens that the named model has positions for; None where that is not known, or its positions are scaled."""
    config = config_of(name)
    if config is None:
        return None
    text = config.get_text_config()
    scaling = getattr(text, "rope_scaling", None) or getattr(text, "rope_parameters", None) or {}
    scaled = "factor" in scaling or scaling.get("rope_type", scaling.get("type", "default")) != "default"
    return None if scaled else getattr(text, "max_position_embeddings", None)


@functools.cache
def config_of(name: str) -> Any:
    """The configuration of a model in a folder, of a hub id in the cache, or of `QWEN`; None where it is not known."""
    from transformers import AutoConfig, Qwen2Config

    family = name.rsplit("/", 1)[-1].removesuffix("-Instruct")
    if family in QWEN and not Path(name).is_dir():
        return Qwen2Config(**dict(zip(QWEN_FIELDS, QWEN[family], strict=True)))
    try:
        return AutoConfig.from_pretrained(name, local_files_only=True, trust_remote_code=True)
    except Exception:  # transformers raises many kinds
        return None
