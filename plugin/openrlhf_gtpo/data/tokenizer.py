"""The policy's tokenizer and its chat template, as OpenRLHF uses them."""

import os
from collections.abc import Sequence
from typing import Any


def load(model: str) -> Any:
    """The tokenizer of a folder or a hub id. Raises whatever transformers raises if there is none."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(model, trust_remote_code=True)  # as OpenRLHF loads it


def rendered(tokenizer: Any, prompt: Any) -> str:
    """A prompt as OpenRLHF passes it to the engine: rendered by the chat template, if there is one.

    Args:
        tokenizer: as transformers loads it.
        prompt: a text or a list of chat messages.
    """
    if tokenizer.chat_template is None:
        return prompt if isinstance(prompt, str) else "\n".join(str(message["content"]) for message in prompt)
    chat = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    return tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)


def prompt_ids(model: str, prompts: Sequence[str]) -> list[list[int]]:
    """Token ids of prompts, as OpenRLHF makes them."""
    tokenizer = load(model)
    return [tokenizer(rendered(tokenizer, prompt), add_special_tokens=False)["input_ids"] for prompt in prompts]
