"""Random Qwen2 models that take no time."""

from typing import Any

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

__all__ = ["small_qwen2"]


def small_qwen2(**changes: Any) -> Qwen2ForCausalLM:
    """In float32, always with the same weights; its entropies differ from one position to the next.

    Args:
        changes: of its configuration.
    """
    torch.manual_seed(0)
    config = {
        "vocab_size": 512,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "max_position_embeddings": 128,
        "tie_word_embeddings": False,
        "initializer_range": 0.3,
    }
    return Qwen2ForCausalLM(Qwen2Config(**{**config, **changes})).to(torch.float32)
