"""Makes a policy with random weights, prompts and a reward function, for a training run without a download."""

import json
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SIZES = {
    "cpu": {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2},
    "gpu": {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12},
}
"""On a GPU 0.1 billion parameters; on a CPU the smallest model that vLLM accepts."""

REWARD = '''"""Rewards whatever has an odd number of characters: about half of what random weights write."""


def reward_func(queries, prompts, labels):
    reward = float(len(queries[0]) % 2)
    return {"rewards": reward, "scores": reward, "extra_logs": {}}
'''


@dataclass(frozen=True)
class Task:
    """Paths: of the policy's folder, the prompts (JSON lines with ``input`` and ``label``) and the reward function."""

    model: Path
    data: Path
    reward: Path


def make(folder: Path, device: str, prompts: int = 64) -> Task:
    """Write policy, prompts and reward function to a folder.

    Args:
        folder: created if necessary.
        device: ``cpu`` or ``gpu``, which decides the size of the policy.
        prompts: number of prompts.
    """
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    task = Task(folder / "model", folder / "prompts.jsonl", folder / "reward.py")
    tokenizer = _tokenizer()
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        num_key_value_heads=SIZES[device]["num_attention_heads"],
        max_position_embeddings=512,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        **SIZES[device],
    )
    Qwen2ForCausalLM(config).to(torch.bfloat16).save_pretrained(task.model)
    tokenizer.save_pretrained(task.model)
    lines = [json.dumps({"input": f"What is {n} + {n}?", "label": str(2 * n)}) for n in range(prompts)]
    task.data.write_text("\n".join(lines) + "\n", encoding="utf-8")
    task.reward.write_text(REWARD, encoding="utf-8")
    return task


def _tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level BPE without merges, which can encode any text."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={token: place for place, token in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([PAD, START, END])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=PAD, eos_token=END, chat_template=TEMPLATE, model_max_length=512
    )
