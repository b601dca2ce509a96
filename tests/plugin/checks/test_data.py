"""What is said of the files that a command line names: rows, prompt lengths; templates, positions, vocabularies."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openrlhf_gtpo.checks import Finding, data

from ...refusals import assert_refusal

Write = Callable[..., Path]
Check = Callable[..., list[Finding]]
BOXED = r"What is 6 * 7? Put the answer within \boxed{}."
GOOD = {"input": BOXED, "label": "42"}


@pytest.fixture
def check(parse: Callable[..., dict[str, Any]], policy: Path) -> Check:
    """What is found about a file, or about the folder of a policy that is named too."""

    def checked(path: Path | str, *words: Any) -> list[Finding]:
        data._tokenizer.cache_clear()  # a test may have changed the folder
        data._seen.cache_clear()
        model = ["--actor.model_name_or_path", policy, "--data.max_len", 64, "--train.batch_size", 1]
        return list(data.check(parse("--data.prompt_dataset", path, "--data.label_key", "label", *model, *words)))

    return checked


def fault(found: list[Finding]) -> str:
    (sentence,) = [finding.sentence for finding in found if finding.state == "fault"]
    return sentence


REFUSED: list[tuple[Any, str]] = [
    ("six times seven", "JSON"),
    ('["6*7?", "42"]', "JSON"),
    ({"label": "42"}, "no 'input'"),
    ({"input": " ", "label": "42"}, "'input' is empty"),
    ({"input": [{"content": "6*7?"}], "label": "42"}, "'input'"),
    ({"input": "6*7?", "label": "  "}, "'label' is empty"),
    ({"input": "6*7?", "label": ["42", "forty-two"]}, "'label'"),
]


@pytest.mark.parametrize(("row", "what"), REFUSED)
def test_a_line_that_cannot_be_used_is_named(check: Check, written: Write, row: Any, what: str) -> None:
    path = written(GOOD, GOOD, row, GOOD)
    assert_refusal(fault(check(path)), str(path), "line 3", what)


def test_texts_and_chats_are_prompts_and_numbers_are_labels(check: Check, written: Write) -> None:
    chat = {"input": [{"role": "user", "content": BOXED}], "label": 49.0}
    path = written(GOOD, chat, {"input": BOXED + "?", "label": 0.5})
    assert {finding.state for finding in check(path, "--data.apply_chat_template")} == {"ok"}
    assert_refusal(fault(check(path)), f"{path}, line 2", "--data.apply_chat_template")


def test_prompts_that_do_not_ask_for_a_boxed_answer_are_told(check: Check, written: Write) -> None:
    path = written({"input": "What is 1 + 1?", "label": "2"})
    assert check(path)[0].state == "warning"
    assert check(path, "--reward.remote_url", "docs/examples/reward_function.py")[0].state == "ok", "who knows"


def prompt(n: int) -> dict[str, str]:
    """A row whose prompt has n characters, and 3 tokens more of the template."""
    return {"input": "boxed".ljust(n, "x"), "label": "1"}


@pytest.mark.parametrize(
    ("sizes", "flags", "named"),
    [
        ([7, 6], "--data.max_len 30 --rollout.max_new_tokens 20", []),
        (
            [6, 8, 5, 10],
            "--data.max_len 30 --rollout.max_new_tokens 20",
            ["2 of 4 ", " 10 tokens", "--data.max_len 30", "new_tokens 20", "lines 2 and 4", "13 in line 4"],
        ),
        ([7], "--data.max_len 11", []),
        ([7], "--data.max_len 10", ["--data.max_len 10", "10 in line 1"]),
    ],
)
def test_a_prompt_may_have_as_many_tokens_as_the_response_leaves_and_a_longer_one_is_named(
    check: Check, written: Write, sizes: list[int], flags: str, named: list[str]
) -> None:
    path = written(*map(prompt, sizes))
    (found,) = check(path, "--data.apply_chat_template", *flags.split())
    assert (found.check, found.state) == ("data", "fault" if named else "ok")
    if named:
        assert_refusal(found.sentence, str(path), *named)


TEMPLATES = [
    (None, "no chat template"),
    ("{% for m in messages %}{{ m['content'] }}{% endfor %}", "add_generation_prompt"),
    ("{% if add_generation_prompt %}<assistant>{% endif %}", "question out"),
    ("{{ raise_exception('only tools') }}", "(only tools)"),
]


@pytest.mark.parametrize(("template", "named"), TEMPLATES)
def test_a_template_that_does_not_ask_the_model_is_refused(
    check: Check, written: Write, policy: Path, tokenizer: Any, template: str | None, named: str
) -> None:
    for file in policy.glob("chat_template*"):
        file.unlink()
    tokenizer.chat_template = template
    tokenizer.save_pretrained(policy)
    assert_refusal(fault(check(written(GOOD), "--data.apply_chat_template")), str(policy), named)


def test_a_tokenizer_without_an_end_or_one_that_loses_the_question_is_refused(
    check: Check, written: Write, policy: Path, tokenizer: Any
) -> None:
    path, told = written(GOOD), "--data.apply_chat_template"
    tokenizer.eos_token = None
    tokenizer.save_pretrained(policy)
    assert_refusal(fault(check(path, told)), "eos_token", "tokenizer_config.json")

    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({"<unk>": 0, "<end>": 1}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="<unk>", eos_token="<end>", chat_template=tokenizer.chat_template
    ).save_pretrained(policy)
    assert_refusal(fault(check(path, told)), "tokenizer_class")


def test_a_model_needs_a_position_for_each_token(
    check: Check, written: Write, policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = json.loads((policy / "config.json").read_text())["max_position_embeddings"]
    path = written(GOOD)
    assert not any(finding.state == "fault" for finding in check(path, "--data.max_len", most))
    said = fault(check(path, "--data.max_len", most + 1))
    assert_refusal(said, f"--data.max_len is {most + 1:,}", str(policy), f"{most:,} positions")
    monkeypatch.setenv("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "1")
    assert not any(finding.state == "fault" for finding in check(path, "--data.max_len", most + 1))
