"""Every test runs on the CPU platform: its environment is set before anything heavy is imported."""

import os
import sys
from pathlib import Path

import hypothesis
import pytest

from openrlhf_gtpo.cpu.environment import STUBS, cpu_environment

os.environ.update(cpu_environment())
if str(STUBS) in os.environ["PYTHONPATH"] and str(STUBS) not in sys.path:
    sys.path.insert(0, str(STUBS))


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Qwen2 of 512 tokens whose entropies differ from one position to the next, saved in float32."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=512,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=128,
        tie_word_embeddings=False,
        eos_token_id=1,
        bos_token_id=None,
        initializer_range=0.3,
    )
    folder = tmp_path_factory.mktemp("tiny_model")
    Qwen2ForCausalLM(config).to(torch.float32).save_pretrained(folder)
    return folder


# A property is not about speed, and a busy machine is slow now and then.
hypothesis.settings.register_profile("without a deadline", deadline=None)
hypothesis.settings.load_profile("without a deadline")
