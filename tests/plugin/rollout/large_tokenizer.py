"""A tokenizer as large as a real model's, which notes where it is unpickled. Ray's workers import this file.

Its tokens are characters; the rest of its vocabulary is there to be pickled, as a real one's is.
"""

import os
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast


class NotingTokenizer(PreTrainedTokenizerFast):
    """Appends the number of its process to the file ``noted_in`` whenever it is unpickled."""

    noted_in: str | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        with Path(str(self.noted_in)).open("a") as file:
            file.write(f"{os.getpid()}\n")


def large_tokenizer() -> NotingTokenizer:
    """With as many tokens as Qwen2.5's."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = [*letters, *(f"token{i}" for i in range(len(letters), 151_643))]
    found = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=[]))
    found.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    found.decoder = decoders.ByteLevel()
    return NotingTokenizer(tokenizer_object=found, pad_token="<|endoftext|>", eos_token="<|im_end|>")
