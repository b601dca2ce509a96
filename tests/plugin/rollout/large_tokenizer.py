"""A tokenizer as large as a real model's, which notes where it is unpickled. Ray's workers import this file."""

import itertools
import os
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

TOKENS = 151_643


class NotingTokenizer(PreTrainedTokenizerFast):
    """Appends the number of its process to the file ``noted_in`` whenever it is unpickled."""

    noted_in: str | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        with Path(str(self.noted_in)).open("a") as file:
            file.write(f"{os.getpid()}\n")


def large_tokenizer() -> NotingTokenizer:
    """Bytes, and merges of these until there are as many tokens as Qwen2.5 has."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: i for i, letter in enumerate(letters)}
    merges: list[tuple[str, str]] = []
    parts = [left + right for left, right in itertools.product(letters, letters)]
    for left, right in itertools.chain(itertools.product(letters, letters), itertools.product(parts, letters)):
        if len(vocabulary) == TOKENS:
            break
        vocabulary[left + right] = len(vocabulary)
        merges.append((left, right))
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(["<|endoftext|>", "<|im_end|>"])
    return NotingTokenizer(tokenizer_object=backend, pad_token="<|endoftext|>", eos_token="<|im_end|>")
