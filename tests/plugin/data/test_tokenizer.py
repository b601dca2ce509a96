"""Chat templates: a good one and the ways in which one can be bad."""

from pathlib import Path
from typing import Any

import pytest

from openrlhf_gtpo.data.tokenizer import check_template, load, prompt_ids, rendered


def test_a_good_template_is_shown_with_what_opens_the_answer(tokenizer: Any) -> None:
    found = check_template(tokenizer, "m")
    assert (found.state, found.sentence) == (
        "ok",
        "It renders a question, opens the answer with '<assistant>', and the end-of-sequence token is <end>.",
    )


@pytest.mark.parametrize(
    ("template", "words"),
    [
        (None, "has no chat template"),
        ("{% for m in messages %}{{ m['content'] }}{% endfor %}", "does not end a prompt with the opening"),
        ("{% if add_generation_prompt %}<assistant>{% endif %}", "leaves the question out"),
        ("{{ raise_exception('only tools') }}", "cannot render a question (only tools)"),
        ("{% for %}", "cannot render a question ("),
    ],
)
def test_a_bad_template_is_a_fault(template: str | None, words: str, tokenizer: Any) -> None:
    tokenizer.chat_template = template
    found = check_template(tokenizer, "the/model")
    assert found.state == "fault"
    assert "the/model" in found.sentence
    assert words in found.sentence


def test_a_tokenizer_without_an_end_is_a_fault(tokenizer: Any) -> None:
    tokenizer.eos_token = None
    found = check_template(tokenizer, "m")
    assert (found.state, "has no end-of-sequence token" in found.sentence) == ("fault", True)


def test_a_tokenizer_that_loses_the_question_is_a_fault(tokenizer: Any) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({"<unk>": 0, "<end>": 1}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    forgetful = PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="<unk>", eos_token="<end>", chat_template=tokenizer.chat_template
    )
    found = check_template(forgetful, "m")
    assert (found.state, "turns a question into tokens that decode to another text" in found.sentence) == (
        "fault",
        True,
    )


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
