"""Checks of files: chat templates, good and bad, and a model's positions."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openrlhf_gtpo.checks.files import check_positions, check_template
from openrlhf_gtpo.checks.findings import Finding
from openrlhf_gtpo.settings import Settings

from ...refusals import assert_refusal

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
    assert "'<assistant>'" in found.sentence
    assert "<end>." in found.sentence


@pytest.mark.parametrize(
    ("template", "named"),
    [
        (None, "--data.apply_chat_template"),
        ("{% for m in messages %}{{ m['content'] }}{% endfor %}", "add_generation_prompt"),
        ("{% if add_generation_prompt %}<assistant>{% endif %}", "question out"),
        ("{{ raise_exception('only tools') }}", "(only tools)"),
        ("{% for %}", "render"),
    ],
)
def test_a_bad_template_is_a_fault(
    template: str | None, named: str, checked: Checked, tokenizer: Any, tmp_path: Path
) -> None:
    tokenizer.chat_template = template
    found = checked(tokenizer)
    assert found.state == "fault"
    assert_refusal(found.sentence, str(tmp_path), named)


def test_a_tokenizer_without_an_end_or_one_that_loses_the_question_is_a_fault(
    checked: Checked, tokenizer: Any
) -> None:
    tokenizer.eos_token = None
    found = checked(tokenizer)
    assert found.state == "fault"
    assert_refusal(found.sentence, "eos_token", "tokenizer_config.json")

    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({"<unk>": 0, "<end>": 1}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    forgetful = PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="<unk>", eos_token="<end>", chat_template=tokenizer.chat_template
    )
    found = checked(forgetful)
    assert found.state == "fault"
    assert_refusal(found.sentence, "tokenizer_class")


def test_a_tokenizer_that_is_not_there_is_a_fault(settings: Callable[..., Settings], tmp_path: Path) -> None:
    found = check_template(settings("--actor.model_name_or_path", tmp_path / "none"))
    assert found.state == "fault"
    assert_refusal(found.sentence, str(tmp_path / "none"))
    assert_refusal(check_template(settings()).sentence, "--actor.model_name_or_path")


def test_a_model_needs_a_position_for_each_token(settings: Callable[..., Settings], tiny_model: Path) -> None:
    def check(model: Any, length: int) -> Finding:
        (found,) = check_positions(settings("--actor.model_name_or_path", model, "--data.max_len", length))
        return found

    most = json.loads((tiny_model / "config.json").read_text())["max_position_embeddings"]
    assert check(tiny_model, most).state == "ok"
    assert check(tiny_model, most + 1).state == "fault"
    assert check("nobody/has-this", 10).state == "skipped"
