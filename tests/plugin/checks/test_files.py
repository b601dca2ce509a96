"""Checks of files: chat templates, good and bad, and a model's positions."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openrlhf_gtpo.checks.files import check_positions, check_template
from openrlhf_gtpo.checks.findings import Finding
from openrlhf_gtpo.settings import Settings

Checked = Callable[[Any], Finding]


@pytest.fixture
def checked(settings: Callable[..., Settings], tmp_path: Path) -> Checked:
    def check(tokenizer: Any) -> Finding:
        tokenizer.save_pretrained(tmp_path)
        return check_template(settings("--actor.model_name_or_path", tmp_path))

    return check


def test_a_good_template_is_shown_with_what_opens_the_answer(checked: Checked, tokenizer: Any) -> None:
    found = checked(tokenizer)
    assert found.state == "ok"
    assert "opens the answer with '<assistant>', and the end-of-sequence token is <end>" in found.sentence


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
def test_a_bad_template_is_a_fault(template: str | None, words: str, checked: Checked, tokenizer: Any) -> None:
    tokenizer.chat_template = template
    found = checked(tokenizer)
    assert found.state == "fault"
    assert words in found.sentence


def test_a_tokenizer_without_an_end_or_one_that_loses_the_question_is_a_fault(
    checked: Checked, tokenizer: Any
) -> None:
    tokenizer.eos_token = None
    found = checked(tokenizer)
    assert (found.state, "has no end-of-sequence token" in found.sentence) == ("fault", True)

    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({"<unk>": 0, "<end>": 1}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    forgetful = PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="<unk>", eos_token="<end>", chat_template=tokenizer.chat_template
    )
    found = checked(forgetful)
    assert (found.state, "tokens that decode to another text" in found.sentence) == ("fault", True)


def test_a_tokenizer_that_is_not_there_is_a_fault(settings: Callable[..., Settings], tmp_path: Path) -> None:
    found = check_template(settings("--actor.model_name_or_path", tmp_path / "none"))
    assert (found.state, "none cannot be loaded (" in found.sentence) == ("fault", True)
    assert "give --actor.model_name_or_path" in check_template(settings()).sentence


def test_a_model_needs_a_position_for_each_token(settings: Callable[..., Settings], tiny_model: Path) -> None:
    def check(model: Any, length: int) -> Finding:
        (found,) = check_positions(settings("--actor.model_name_or_path", model, "--data.max_len", length))
        return found

    most = json.loads((tiny_model / "config.json").read_text())["max_position_embeddings"]
    assert check(tiny_model, most).state == "ok"
    assert check(tiny_model, most + 1).state == "fault"
    assert check("nobody/has-this", 10).state == "skipped"
