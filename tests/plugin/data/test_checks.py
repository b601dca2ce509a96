"""What is said of a data set: lines by their numbers, labels, repeats, lengths and references."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from math_reward.client import Settings
from openrlhf_gtpo.data import checks as dataset
from openrlhf_gtpo.data.checks import (
    check_labels,
    check_lengths,
    check_references,
    check_repeats,
    check_rows,
    sample,
)
from openrlhf_gtpo.data.survey import Survey, survey
from openrlhf_gtpo.rewards.embedded import EmbeddedService

from ...fake_reward_server import Answer, FakeRewardServer

Write = Callable[..., Path]
GOOD = {"input": "6*7?", "label": "42"}


def looked_at(path: Path) -> Survey:
    return survey(path, "input", "label")


# Rows


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("six times seven", "is no JSON object"),
        ('["6*7?", "42"]', "is no JSON object"),
        ('{"input": "6*7?", "lab', "is no JSON object"),
        ({"label": "42"}, "has no 'input'"),
        ({"input": None, "label": "42"}, "has no 'input'"),
        ({"input": " ", "label": "42"}, "has an empty 'input'"),
        ({"input": [], "label": "42"}, "has an empty 'input'"),
        ({"input": 67, "label": "42"}, "has a 'input' that is neither a text nor a list of chat messages"),
        ({"input": [{"content": "6*7?"}], "label": "42"}, "has a 'input' that is neither a text nor a list"),
        ('{"input": "6*7 \\ud83d?", "label": "42"}', "has half of a character, as \\ud83d is"),
    ],
)
def test_a_line_that_cannot_be_used_is_named(written: Write, row: Any, words: str) -> None:
    path = written(GOOD, GOOD, row, GOOD)
    found, _ = check_rows(path, "input", "label")
    assert found.state == "fault"
    assert found.sentence.startswith(f"{path}: line 3 {words}")
    assert found.sentence.endswith(": fix or remove these lines.")


def test_many_bad_lines_are_counted_and_the_first_five_named(written: Write) -> None:
    path = written(*["oops"] * 7, GOOD, {"label": "42"}, {"label": "43"})
    found, _ = check_rows(path, "input", "label")
    assert found.sentence == (
        f"{path}: lines 1, 2, 3, 4, 5 and 2 more: it is no JSON object; lines 9 and 10: it has no 'input': fix or "
        "remove these lines."
    )


def test_a_line_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_bytes(b'{"input": "6*7?", "label": "42"}\n{"input": "caf\xe9", "label": "42"}\n')
    found, _ = check_rows(path, "input", "label")
    assert (found.state, "line 2 is not UTF-8" in found.sentence) == ("fault", True)


def test_blank_lines_and_unicodes_line_separators_do_not_shift_the_numbers(written: Write) -> None:
    path = written(GOOD, "", '{"input": "one\u2028two", "label": "1"}', "oops")
    found, looked = check_rows(path, "input", "label")
    assert "line 4 is no JSON object" in found.sentence
    assert looked is not None
    assert (looked.rows, list(looked.lines)) == (3, [1, 3])


def test_texts_and_chats_are_prompts(written: Write) -> None:
    path = written(GOOD, {"input": [{"role": "user", "content": "6*7?"}], "label": "42"})
    found, _ = check_rows(path, "input", "label")
    assert (found.state, found.sentence) == (
        "ok",
        f"{path}: each of 2 rows is an object with a prompt in 'input'.",
    )


def test_a_column_of_another_name_is_told_with_the_names_that_are_there(written: Write) -> None:
    path = written({"question": "6*7?", "answer": "42"})
    found, looked = check_rows(path, "input", "label")
    assert found.sentence == (
        f"{path} has no 'input' in any line: name the column by --input_key (there are 'question', 'answer')."
    )
    assert looked is not None
    assert check_labels(path, looked, "label").sentence == (
        f"{path} has no 'label' in any line: name the column by --label_key (there are 'question', 'answer')."
    )


def test_a_file_that_is_missing_or_empty_is_told(tmp_path: Path, written: Write) -> None:
    found, looked = check_rows(tmp_path / "none.jsonl", "input", "label")
    assert (found.state, looked) == ("fault", None)
    assert "none.jsonl cannot be read: No such file or directory: fix the path" in found.sentence
    found, _ = check_rows(written("", ""), "input", "label")
    assert (found.state, "is empty" in found.sentence) == ("fault", True)


# Labels


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"input": "6*7?"}, "has no 'label'"),
        ({"input": "6*7?", "label": None}, "has no 'label'"),
        ({"input": "6*7?", "label": "  "}, "has an empty 'label'"),
        ({"input": "6*7?", "label": True}, "has a 'label' that is true or false, not a text"),
        ({"input": "6*7?", "label": ["42", "forty-two"]}, "has a 'label' that is a list, not a text"),
        ({"input": "6*7?", "label": {"answer": "42"}}, "has a 'label' that is an object, not a text"),
    ],
)
def test_a_label_that_would_reach_the_grader_as_something_else_is_a_fault(
    written: Write, row: Any, words: str
) -> None:
    path = written(GOOD, row)
    found = check_labels(path, looked_at(path), "label")
    assert (found.state, found.sentence) == (
        "fault",
        f"{path}: line 2 {words}: give each row its reference answer as a text.",
    )


def test_numbers_are_labels_alone_and_among_texts(written: Write) -> None:
    path = written(GOOD, {"input": "1/2?", "label": 0.5}, {"input": "7*7?", "label": 49.0})
    assert check_labels(path, looked_at(path), "label").state == "ok"
    looked = looked_at(path)
    assert [row.label for row in sample(path, looked, "input", "label")] == ["42", "0.5", "49"]


def test_texts_are_right(written: Write) -> None:
    path = written(GOOD, GOOD)
    assert check_labels(path, looked_at(path), "label").state == "ok"


# Repeats


def test_prompts_that_come_again_are_counted(written: Write) -> None:
    chat = [{"role": "user", "content": "6*7?"}]
    path = written(GOOD, {"input": "6*8?", "label": "48"}, GOOD, {"input": chat, "label": "42"}, GOOD)
    found = check_repeats(path, looked_at(path))
    assert (found.state, f"{path}: 2 rows repeat a prompt, in lines 3 and 5:" in found.sentence) == ("warning", True)


def test_a_prompt_with_two_labels_is_named(written: Write) -> None:
    path = written(GOOD, GOOD, {"input": "6*7?", "label": "43"})
    found = check_repeats(path, looked_at(path))
    assert (found.state, "with another label in line 3: keep" in found.sentence) == ("warning", True)


def test_different_prompts_are_right(written: Write) -> None:
    path = written(GOOD, {"input": "6*8?", "label": "48"})
    assert check_repeats(path, looked_at(path)).state == "ok"


# Lengths


def prompt(n: int) -> dict[str, str]:
    """A row whose prompt has n characters."""
    return {"input": "x" * n, "label": "1"}


def lengths(path: Path, tokenizer: Any, max_len: int, max_new_tokens: int | None) -> Any:
    looked = looked_at(path)
    return check_lengths(path, looked, sample(path, looked, "input", "label"), tokenizer, max_len, max_new_tokens)


def test_a_prompt_may_have_as_many_tokens_as_the_response_leaves(written: Write, tokenizer: Any) -> None:
    path = written(prompt(7), prompt(4))  # and 3 tokens of the template
    found = lengths(path, tokenizer, 30, 20)
    assert (found.state, found.sentence) == (
        "ok",
        f"{path}: the longest of 2 prompts has 10 tokens (line 1), and there is room for 10 (--max_len 30 less "
        "--max_new_tokens 20).",
    )


def test_a_longer_prompt_is_named(written: Write, tokenizer: Any) -> None:
    path = written(prompt(4), prompt(8), prompt(2), prompt(10))
    found = lengths(path, tokenizer, 30, 20)
    assert found.state == "fault"
    assert found.sentence.startswith(
        f"{path}: 2 of 4 prompts have more than 10 tokens (--max_len 30 less --max_new_tokens 20), in lines 2 and 4, "
        "the longest 13 in line 4;"
    )


def test_without_a_length_of_the_response_one_token_is_left_for_it(written: Write, tokenizer: Any) -> None:
    path = written(prompt(7))
    assert lengths(path, tokenizer, 11, None).state == "ok"
    assert lengths(path, tokenizer, 10, None).state == "fault"


def test_a_chat_that_the_template_refuses_is_named(written: Write, tokenizer: Any) -> None:
    tokenizer.chat_template = (
        "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}<user>"
    )
    path = written(prompt(3), {"input": [{"role": "system", "content": "x"}], "label": "1"})
    found = lengths(path, tokenizer, 100, 20)
    assert (found.state, found.sentence) == (
        "fault",
        f"{path}: line 2 cannot be rendered by the chat template (no system): fix these prompts.",
    )


def test_of_many_rows_a_sample_spread_over_the_file_is_measured(
    written: Write, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataset, "SAMPLE", 5)
    path = written(*[prompt(n) for n in range(1, 18)])
    looked = looked_at(path)
    assert [row.line for row in sample(path, looked, "input", "label")] == [1, 5, 9, 13, 17]
    found = lengths(path, tokenizer, 40, 20)
    assert "the longest of 5 sampled (of 17) prompts has 20 tokens (line 17)" in found.sentence


# References


def references(path: Path, service: EmbeddedService) -> Any:
    looked = looked_at(path)
    settings = Settings((service.url,), token=service.token)
    return check_references(path, looked, sample(path, looked, "input", "label"), settings)


def test_references_that_the_real_grader_reads_are_right(written: Write, service: EmbeddedService) -> None:
    path = written(GOOD, {"input": "1/2?", "label": r"\frac{1}{2}"}, {"input": "x?", "label": "(1, 2)"})
    found = references(path, service)
    assert (found.state, found.sentence) == ("ok", f"{path}: the grader can read each of 3 references.")


def test_references_that_the_real_grader_cannot_read_are_named(written: Write, service: EmbeddedService) -> None:
    bad = r"\boxed{}"
    path = written(GOOD, {"input": "a?", "label": bad}, {"input": "b?", "label": "2"}, {"input": "c?", "label": bad})
    found = references(path, service)
    assert found.state == "fault"
    assert found.sentence.startswith(
        f"{path}: the grader cannot read 2 of 4 references, in lines 2 and 4 (such as {bad!r}), so no"
    )


def test_a_service_that_goes_away_while_it_grades_is_told(written: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset, "GRADING_SECONDS", 0.5)
    path = written(GOOD)
    looked = looked_at(path)
    with FakeRewardServer(always=lambda post: Answer(503, {})) as server:
        found = check_references(path, looked, sample(path, looked, "input", "label"), Settings((server.url,)))
    assert (found.state, "answered HTTP 503" in found.sentence) == ("fault", True)
