"""The policy of a task: a Qwen2 of less than a million parameters that starts from random weights, and its
tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast, Qwen2Config

from task import Task

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def build_tokenizer(task: Task) -> PreTrainedTokenizerFast:
    """A byte-level BPE without merges, plus whole words as added tokens.

    For `model_type: qwen2` transformers 5 rebuilds a byte-level BPE whatever kind of tokenizer was saved, so it has
    to be one. All 256 bytes are in the vocabulary: no text is out of it.
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([PAD, START, END])
    tokenizer.add_tokens([AddedToken(word, normalized=False) for word in task.words])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=task.max_length,
    )


def build_config(task: Task, tokenizer: PreTrainedTokenizerFast) -> Qwen2Config:
    return Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=task.layers,
        num_attention_heads=4,  # heads of 32: the smallest that vLLM's attention on a CPU takes
        num_key_value_heads=4,
        max_position_embeddings=task.max_length,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )


def chat(task: Task, tokenizer: PreTrainedTokenizerFast, expression: Any) -> str:
    """The prompt as the policy sees it: the question in the chat template, up to where the response begins."""
    message = {"role": "user", "content": task.question(expression)}
    return tokenizer.apply_chat_template([message], tokenize=False, add_generation_prompt=True)


def check_reloaded(task: Task, tokenizer: PreTrainedTokenizerFast, folder: Path, expression: Any) -> None:
    """Make sure that transformers loads from `folder` the tokenizer that was saved there.

    Raises:
        RuntimeError: it gives other token ids, or other text for the same ids.
    """
    text = chat(task, tokenizer, expression) + task.worked(expression) + END
    saved, reloaded = tokenizer(text).input_ids, AutoTokenizer.from_pretrained(folder)
    if reloaded(text).input_ids != saved or reloaded.decode(saved) != text or len(reloaded) != len(tokenizer):
        raise RuntimeError(
            f"the tokenizer in {folder} comes back from disk with other token ids than the policy was trained with"
        )
