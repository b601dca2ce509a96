"""A tokenizer as large as a real model's, which notes where it is unpickled. Ray's workers import this file."""

import os
from pathlib import Path
from typing import Any

from null_step.material import byte_level_bpe
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
    return NotingTokenizer(tokenizer_object=byte_level_bpe(151_643), pad_token="<|endoftext|>", eos_token="<|im_end|>")
