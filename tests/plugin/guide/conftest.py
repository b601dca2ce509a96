"""A tokenizer whose tokens are characters, and a folder to keep it in."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TEMPLATE = (
    "{% for message in messages %}<user>{{ message['content'] }}<end>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def built(*words: str) -> Any:
    """Byte-level, with some whole words more."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    characters = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(alphabet)}, merges=[]))
    characters.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    characters.decoder = decoders.ByteLevel()
    characters.add_special_tokens(["<end>", "<user>", "<assistant>"])  # 256, 257 and 258
    characters.add_tokens(list(words))
    return PreTrainedTokenizerFast(
        tokenizer_object=characters, eos_token="<end>", pad_token="<end>", chat_template=TEMPLATE
    )


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    """A prompt of n ASCII characters has n + 3 tokens: <user>, <end> and <assistant>."""
    return built()


@pytest.fixture
def saved(tmp_path: Path) -> Callable[..., str]:
    """Writes a model's folder with a tokenizer that has these words more."""

    def save(name: str, *words: str) -> str:
        built(*words).save_pretrained(tmp_path / name)
        return str(tmp_path / name)

    return save
