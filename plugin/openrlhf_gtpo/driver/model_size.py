"""The size of a policy, out of its config.json: parameters, bytes for each of its tokens, and positions."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Model:
    """A decoder of the Llama and Qwen kind, by the names of its config.json."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    tied: bool
    attention_bias: bool = True
    """Whether query, key and value have a bias, as in Qwen2."""

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "Model | None":
        """From config.json; None for another kind of model, such as a mixture of experts."""
        config = config.get("text_config") or config
        names = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
        if any(name not in config for name in names) or "num_experts" in config or "num_local_experts" in config:
            return None
        hidden, intermediate, layers, heads, vocabulary = (config[name] for name in names)
        return cls(
            hidden=hidden,
            intermediate=intermediate,
            layers=layers,
            heads=heads,
            kv_heads=config.get("num_key_value_heads") or heads,
            head_dim=config.get("head_dim") or hidden // heads,
            vocabulary=vocabulary,
            tied=bool(config.get("tie_word_embeddings", False)),
            attention_bias=bool(config.get("attention_bias", config.get("model_type") == "qwen2")),
        )

    @property
    def parameters(self) -> int:
        """Parameters of embedding, layers and head, without the small norms of single heads that some models have."""
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        attention = 2 * self.hidden * queries + 2 * self.hidden * keys
        if self.attention_bias:
            attention += queries + 2 * keys
        layer = attention + 3 * self.hidden * self.intermediate + 2 * self.hidden
        embeddings = self.vocabulary * self.hidden * (1 if self.tied else 2)
        return embeddings + self.layers * layer + self.hidden

    @property
    def cache_bytes(self) -> int:
        """KV cache of one token: key and value of every layer in bfloat16."""
        return 2 * self.layers * self.kv_heads * self.head_dim * 2

    @property
    def layer_bytes(self) -> int:
        """Activations of one token in one layer, in bfloat16: 8 times the hidden size for two norms, residual, query,
        attention and its output; key and value; and gate, up, activation and product of the feed-forward part."""
        return 2 * (8 * self.hidden + 2 * self.kv_heads * self.head_dim + 4 * self.intermediate)


KNOWN = {
    "Qwen2.5-0.5B": Model(896, 4864, 24, 14, 2, 64, 151_936, tied=True),
    "Qwen2.5-1.5B": Model(1536, 8960, 28, 12, 2, 128, 151_936, tied=True),
    "Qwen2.5-7B": Model(3584, 18944, 28, 28, 4, 128, 152_064, tied=False),
    "Qwen2.5-32B": Model(5120, 27648, 64, 40, 8, 128, 152_064, tied=False),
}
"""The models of the launch scripts, for a plan on a machine that has not downloaded them."""


def model_named(name: str) -> Model | None:
    """The model in a folder, of a hub id in the cache, or in `KNOWN`; None where its shape is not known.

    Args:
        name: as ``--actor.model_name_or_path``.
    """
    family = name.rsplit("/", 1)[-1].removesuffix("-Instruct")
    if family in KNOWN and not (Path(name) / "config.json").is_file():
        return KNOWN[family]
    config = _config(name)
    return None if config is None else Model.of(config)


def positions_of(name: str) -> int | None:
    """Tokens that the named model has positions for; None where that is not known, or its positions are scaled."""
    config = _config(name) or {}
    config = config.get("text_config") or config
    for scaling in (config.get("rope_scaling") or {}, config.get("rope_parameters") or {}):
        of_each_kind_of_layer = any(isinstance(value, dict) for value in scaling.values())
        if (
            of_each_kind_of_layer
            or "factor" in scaling
            or {"default"} != {scaling.get(key) or "default" for key in ("rope_type", "type")}
        ):
            return None
    return config.get("max_position_embeddings")


def too_few_positions(name: str, most: int) -> str:
    """What to say of a model with ``most`` positions where there are more tokens; a clause. vLLM refuses it too, but
    only when its engines start."""
    return (
        f"the model {name} has {most:,} positions (max_position_embeddings in its config.json): give at most {most}, "
        "or a model with more"
    )


def _config(name: str) -> dict[str, Any] | None:
    """The content of config.json in a folder, or of a hub id in the cache; None if it is in neither."""
    path = Path(name) / "config.json"
    if path.is_file():
        return json.loads(path.read_text(encoding="utf-8"))
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(name, local_files_only=True).to_dict()
    except (OSError, ValueError):
        return None
