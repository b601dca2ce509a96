"""The policy's tokenizer and its chat template, as OpenRLHF uses them."""

import os
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


def difference(policy: str, ours: Any, guide: str, theirs: Any) -> str | None:
    """Why a policy cannot train on a guide's tokens, and the fix; None where they are the same.

    Args:
        policy: the policy's name.
        ours: its tokenizer.
        guide: the guide's name.
        theirs: its tokenizer.
    """
    if ours.get_vocab() != theirs.get_vocab():  # special tokens included
        return (
            f"--guide.model {guide} has another vocabulary than the policy {policy}, so its tokens mean other texts: "
            "choose a guide of the same family."
        )
    if ours.eos_token != theirs.eos_token:
        return (
            f"--guide.model {guide} ends its responses with {theirs.eos_token!r}, but the policy {policy} with "
            f"{ours.eos_token!r}: give both the same eos_token in their tokenizer_config.json."
        )
    return None
