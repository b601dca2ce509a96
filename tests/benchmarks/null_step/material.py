"""A tokenizer with as many tokens as a real model's, a model of one small layer, and prompts. Nothing is downloaded.

The tokenizer is byte-level BPE. Its merges are made by a rule, not trained: pairs of letters, pairs of pairs, and
pairs of those, frequent letters first. So it is the same on every machine and is made in seconds, and pickling it
costs what a real one costs."""

import heapq
import itertools
import json
import random
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
LETTERS = "Ġetaoinshrdlcumwfgypbvkjxqz"  # by frequency; Ġ is the blank
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
FILLER = ("Consider", "a", "large", "garden", "with", "several", "rows", "of", "trees", "planted", "by", "farmers")
PROMPT_WORDS = 110
CHAIN = 4000  # parts that are joined to longer tokens


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


def byte_level_bpe(tokens: int) -> Any:
    """A `tokenizers.Tokenizer` of this many tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = list(_merges(tokens - len(letters)))
    vocabulary = {token: i for i, token in enumerate([*letters, *(a + b for a, b in merges)])}
    found = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    found.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    found.decoder = decoders.ByteLevel()
    return found


def make_model(folder: Path, tokens: int) -> None:
    """Save a tokenizer of this many tokens, and a Qwen2 of one small layer, unless they are there."""
    if (folder / "done").exists():
        return
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=byte_level_bpe(tokens - 3),
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        model_max_length=131072,
    )
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
        max_position_embeddings=131072,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    pages = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md")))
    text = pages.replace("\\boxed", "boxed").replace("<|", "")
    (folder / "text.json").write_text(json.dumps(tokenizer(text, add_special_tokens=False)["input_ids"]))
    (folder / "done").touch()


def write_prompts(model: Path, folder: Path, count: int) -> None:
    """Write ``prompts.jsonl`` and, for the engine, ``ends.json``: how a right and a wrong response to each prompt
    end."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    draw, ends = random.Random(0), {}

    def end(answer: int) -> list[int]:
        text = f"\n\nSo the answer is \\boxed{{{answer}}}."
        return [*tokenizer(text, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]

    with (folder / "prompts.jsonl").open("w") as file:
        for number in range(count):
            a, b = draw.randrange(100, 1000), draw.randrange(100, 1000)
            words = " ".join(draw.choice(FILLER) for _ in range(PROMPT_WORDS))
            problem = f"Problem {number}. {words}. What is {a} + {b}?"
            file.write(json.dumps({"input": problem, "label": str(a + b)}) + "\n")
            prompt = tokenizer.apply_chat_template(
                [{"role": "user", "content": problem}], tokenize=False, add_generation_prompt=True
            )
            tokens = tokenizer(text=prompt, add_special_tokens=False)["input_ids"]
            ends[key_of(tokens)] = [end(a + b), end(a + b + 1)]
    (folder / "ends.json").write_text(json.dumps(ends))


def key_of(prompt_tokens: Sequence[int]) -> str:
    """Name of a prompt in ``ends.json``."""
    return str(zlib.crc32(json.dumps(list(prompt_tokens)).encode()))


def pickled_bytes(model: Path) -> int:
    """Size of the tokenizer as Ray would send it."""
    import pickle

    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(model)
    return len(pickle.dumps(tokenizer))
