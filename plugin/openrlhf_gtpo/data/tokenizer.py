"""The policy's tokenizer and its chat template, as OpenRLHF uses them."""

import os
from collections.abc import Sequence
from typing import Any

from openrlhf_gtpo.data.findings import Finding, fault, ok
from openrlhf_gtpo.errors import reason

__all__ = ["check_template", "load", "prompt_ids", "rendered"]

NAME = "chat template"
QUESTION = "What is 6 times 7?"


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


def check_template(tokenizer: Any, model: str) -> Finding:
    """Check that the template renders a question so that the model answers it and its response can end."""
    if tokenizer.eos_token_id is None:
        return fault(
            NAME,
            f"The tokenizer of {model} has no end-of-sequence token, so responses never end and cannot be padded: "
            "set eos_token in its tokenizer_config.json.",
        )
    if tokenizer.chat_template is None:
        return fault(
            NAME,
            f"The tokenizer of {model} has no chat template, which --data.apply_chat_template and `openrlhf-gtpo "
            "eval` need: put the chat_template.jinja of a model of the same family into the folder.",
        )
    try:
        chat = [{"role": "user", "content": QUESTION}]
        prompt = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        closed = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=False)
    except Exception as error:  # a template is a program, which may raise anything
        return fault(
            NAME, f"The chat template of {model} cannot render a question ({reason(error)}): fix the template."
        )
    if QUESTION not in prompt:
        return fault(NAME, f"The chat template of {model} leaves the question out of the prompt: fix the template.")
    back = tokenizer.decode(tokenizer(prompt, add_special_tokens=False)["input_ids"])
    if "".join(QUESTION.split()) not in "".join(back.split()):
        return fault(
            NAME,
            f"The tokenizer of {model} turns a question into tokens that decode to another text ({back[:60]!r}): "
            "check that the folder has the tokenizer files and the tokenizer_class that belong to the model.",
        )
    opening = prompt[len(closed) :]
    if not prompt.startswith(closed) or not opening:
        return fault(
            NAME,
            f"The chat template of {model} does not end a prompt with the opening of the model's answer: make it use "
            "add_generation_prompt.",
        )
    return ok(
        NAME,
        f"It renders a question, opens the answer with {opening!r}, and the end-of-sequence token is "
        f"{tokenizer.eos_token}.",
    )
