"""The policy's tokenizer, as OpenRLHF uses it."""

from pathlib import Path
from typing import Any

from openrlhf_gtpo.data.tokenizer import load, prompt_ids, rendered


def test_prompts_become_tokens_as_openrlhf_makes_them(policy: Path) -> None:
    from openrlhf.datasets.prompts_dataset import preprocess_data

    tokenizer = load(str(policy))
    theirs, _ = preprocess_data({"input": "6*7?"}, apply_chat_template=tokenizer.apply_chat_template)
    assert rendered(tokenizer, "6*7?") == theirs == "<user>6*7?<end><assistant>"
    assert prompt_ids(str(policy), ["6*7?"]) == [[257, *tokenizer("6*7?")["input_ids"], 256, 258]]
    assert len(tokenizer("6*7?")["input_ids"]) == 4


def test_without_a_template_a_prompt_is_its_text(tokenizer: Any) -> None:
    tokenizer.chat_template = None
    assert rendered(tokenizer, "6*7?") == "6*7?"
