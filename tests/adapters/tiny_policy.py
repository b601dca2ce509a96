"""A policy of one layer over a few words, made on the spot: for the checks with TRL."""

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, set_seed
from trl import GRPOConfig

WORDS = ["<pad>", "<eos>", "What", "is", "half", "of", "?", "7", "14", "8", "16"]
TEMPLATE = "{% for message in messages %}{{ message['content'] + ' ' }}{% endfor %}"
QUESTIONS = ["What is half of 14 ?", "What is half of 16 ?"]


def tiny_policy(hidden_size: int = 16) -> tuple[Qwen2ForCausalLM, PreTrainedTokenizerFast]:
    """A random model, the same each time, and its tokenizer: a word is a token."""
    set_seed(0)
    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="?"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>")
    tokenizer.chat_template = TEMPLATE
    config = Qwen2Config(
        vocab_size=len(WORDS),
        hidden_size=hidden_size,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=64,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )
    return Qwen2ForCausalLM(config), tokenizer


def on_a_cpu(folder: Path, **settings: Any) -> GRPOConfig:
    """TRL's settings for a run that saves and reports nothing."""
    quiet = {"save_strategy": "no", "report_to": "none", "disable_tqdm": True, "logging_steps": 1}
    cpu = {"use_cpu": True, "bf16": False, "gradient_checkpointing": False}
    return GRPOConfig(str(folder), **{**quiet, **cpu, **settings})
