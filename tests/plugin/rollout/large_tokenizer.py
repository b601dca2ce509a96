"""A tokenizer as large as a real model's, which notes where it is unpickled. Ray's workers import this file.

It is byte-level BPE. Its merges are made by a rule, not trained: pairs of letters, pairs of pairs, and pairs of those,
frequent letters first. So it is the same on every machine and is made in seconds, and pickling it costs what a real
one costs.
"""

import heapq
import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

LETTERS = "Ġetaoinshrdlcumwfgypbvkjxqz"  # by frequency; Ġ is the blank
CHAIN = 4000  # parts that are joined to longer tokens


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


def byte_level_bpe(tokens: int) -> Tokenizer:
    """A `tokenizers.Tokenizer` of this many tokens."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = list(_merges(tokens - len(letters)))
    vocabulary = {token: i for i, token in enumerate([*letters, *(a + b for a, b in merges)])}
    found = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    found.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    found.decoder = decoders.ByteLevel()
    return found


def _joined(parts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Pairs of parts, frequent ones (of small places) first."""
    heap = [(0, 0, 0)]
    while heap:
        _, i, j = heapq.heappop(heap)
        yield parts[i], parts[j]
        if j + 1 < len(parts):
            heapq.heappush(heap, (i + j + 1, i, j + 1))
        if j == 0 and i + 1 < len(parts):
            heapq.heappush(heap, (i + 1, i + 1, 0))


def _merges(count: int) -> Iterator[tuple[str, str]]:
    parts = list(LETTERS)
    seen = set(parts)
    while count:
        longer = []
        for a, b in itertools.islice(_joined(parts), count // 4 + 1 if len(parts[0]) == 2 else count):
            if a + b not in seen:
                seen.add(a + b)
                longer.append(a + b)
                yield a, b
                count -= 1
                if not count:
                    return
        parts = longer[:CHAIN]
