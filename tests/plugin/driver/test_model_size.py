"""The size of a policy, against transformers' own models and published checkpoints."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config, Qwen3Config

from openrlhf_gtpo.driver.model_size import KNOWN, Model, model_named, positions_of

PUBLISHED = {
    "Qwen2.5-0.5B": 494_032_768,
    "Qwen2.5-1.5B": 1_543_714_304,
    "Qwen2.5-7B": 7_615_616_512,
    "Qwen2.5-32B": 32_763_876_352,
}
"""Parameters as the models' cards and checkpoints have them."""


@pytest.mark.parametrize("name", KNOWN)
def test_the_known_models_have_as_many_parameters_as_their_checkpoints(name: str) -> None:
    assert KNOWN[name].parameters == PUBLISHED[name]


SMALL = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "vocab_size": 320}


@pytest.mark.parametrize(
    "config",
    [
        Qwen2Config(**SMALL, num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True),
        Qwen2Config(**SMALL, num_attention_heads=4, num_key_value_heads=4, tie_word_embeddings=False),
        LlamaConfig(**SMALL, num_attention_heads=4, num_key_value_heads=1, tie_word_embeddings=False),
    ],
    ids=["Qwen2 tied", "Qwen2", "Llama"],
)
def test_a_config_gives_the_parameters_that_transformers_makes_of_it(config: Qwen2Config | LlamaConfig) -> None:
    with torch.device("meta"):
        made = AutoModelForCausalLM.from_config(config)
    found = Model.of(config.to_dict())
    assert found is not None
    assert found.parameters == sum(parameter.numel() for parameter in made.parameters())


def test_norms_of_single_heads_are_all_that_is_left_out_of_a_qwen3() -> None:
    config = Qwen3Config(**SMALL, num_attention_heads=4, num_key_value_heads=2, head_dim=32, tie_word_embeddings=True)
    with torch.device("meta"):
        made = AutoModelForCausalLM.from_config(config)
    found = Model.of(config.to_dict())
    assert found is not None
    assert sum(parameter.numel() for parameter in made.parameters()) - found.parameters == 3 * 2 * 32


def test_a_model_is_known_by_its_folder_or_by_its_name(tmp_path: Path) -> None:
    Qwen2Config(**SMALL, num_attention_heads=4, num_key_value_heads=2).save_pretrained(tmp_path)
    found = model_named(str(tmp_path))
    assert found is not None
    assert (found.hidden, found.kv_heads, found.head_dim) == (64, 2, 16)
    assert model_named("Qwen/Qwen2.5-1.5B-Instruct") == KNOWN["Qwen2.5-1.5B"]
    assert model_named("nobody/has-this") is None


@pytest.mark.parametrize("config", [{}, {"hidden_size": 8}, {**SMALL, "num_attention_heads": 4, "num_experts": 8}])
def test_another_kind_of_model_is_not_guessed(config: dict[str, int]) -> None:
    assert Model.of(config) is None


@pytest.mark.parametrize(
    ("rope", "positions"),
    [
        (None, 96),
        ({"rope_type": "default", "rope_theta": 10_000.0}, 96),
        ({"rope_type": "linear", "factor": 4.0, "rope_theta": 10_000.0}, None),
        ({"rope_type": "yarn", "factor": 4.0, "rope_theta": 10_000.0, "original_max_position_embeddings": 96}, None),
    ],
)
def test_a_model_has_as_many_positions_as_its_config_says_unless_they_are_scaled(
    rope: dict[str, object] | None, positions: int | None, tmp_path: Path
) -> None:
    config = Qwen2Config(**SMALL, num_attention_heads=4, max_position_embeddings=96, rope_parameters=rope)
    config.save_pretrained(tmp_path)
    assert positions_of(str(tmp_path)) == positions
    assert positions_of("nobody/has-this") is None
