"""What is said of the data sets: lines by their numbers, labels, repeats, lengths and references."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from math_reward.client import Settings as ClientSettings
from openrlhf_gtpo.checks import data
from openrlhf_gtpo.checks.data import check_answers, check_data, check_references
from openrlhf_gtpo.checks.findings import Finding
from openrlhf_gtpo.rewards.embedded import EmbeddedService
from openrlhf_gtpo.settings import Settings

from ...fake_reward_server import Answer, FakeRewardServer
from ...refusals import assert_refusal

Write = Callable[..., Path]
Check = Callable[..., dict[str, Finding]]
GOOD = {"input": "6*7?", "label": "42"}


@pytest.fixture
def check(settings: Callable[..., Settings]) -> Check:
    """The findings on a file by their names, ``rows`` for ``data: rows``."""

    def checked(path: Path, *flags: Any, tokenizer: Any = None) -> dict[str, Finding]:
        asked = settings("--data.prompt_dataset", path, "--data.label_key", "label", *flags)
        return {finding.name.removeprefix("data: "): finding for finding in check_data(asked, lambda: tokenizer)}

    return checked


# Rows


HALF = '{"input": "6*7 \\ud83d?", "label": "42"}'
REFUSED: list[tuple[str, Any, str]] = [
    ("rows", "six times seven", "JSON"),
    ("rows", '["6*7?", "42"]', "JSON"),
    ("rows", '{"input": "6*7?", "lab', "JSON"),
    ("rows", {"label": "42"}, "no 'input'"),
    ("rows", {"input": None, "label": "42"}, "no 'input'"),
    ("rows", {"input": " ", "label": "42"}, "empty 'input'"),
    ("rows", {"input": [], "label": "42"}, "empty 'input'"),
    ("rows", {"input": 67, "label": "42"}, "'input'"),
    ("rows", {"input": [{"content": "6*7?"}], "label": "42"}, "'input'"),
    ("rows", HALF, "\\ud83d"),
    ("labels", {"input": "6*7?"}, "no 'label'"),
    ("labels", {"input": "6*7?", "label": None}, "no 'label'"),
    ("labels", {"input": "6*7?", "label": "  "}, "empty 'label'"),
    ("labels", {"input": "6*7?", "label": True}, "true or false"),
    ("labels", {"input": "6*7?", "label": ["42", "forty-two"]}, "a list"),
    ("labels", {"input": "6*7?", "label": {"answer": "42"}}, "an object"),
]


@pytest.mark.parametrize(("finding", "row", "what"), REFUSED)
def test_a_line_that_cannot_be_used_is_named(check: Check, written: Write, finding: str, row: Any, what: str) -> None:
    path = written(GOOD, GOOD, row, GOOD)
    found = check(path)[finding]
    assert found.state == "fault"
    assert_refusal(found.sentence, str(path), "line 3", what)


def test_many_bad_lines_are_counted_and_the_first_five_named(check: Check, written: Write) -> None:
    path = written(*["oops"] * 7, GOOD, {"label": "42"}, {"label": "43"})
    assert_refusal(check(path)["rows"].sentence, "lines 1, 2, 3, 4, 5 and 2 more: ", "lines 9 and 10: ")


def test_texts_and_chats_are_prompts_and_numbers_are_labels(check: Check, written: Write) -> None:
    chat = {"input": [{"role": "user", "content": "7*7?"}], "label": 49.0}
    found = check(written(GOOD, chat, {"input": "1/2?", "label": 0.5}))
    assert {found[name].state for name in ("rows", "labels", "repeats")} == {"ok"}


@pytest.mark.parametrize(
    ("flag", "finding"), [("--data.input_key", "rows"), ("--data.label_key", "labels")], ids=["prompt", "label"]
)
def test_a_column_of_another_name_is_told_with_the_names_that_are_there(
    flag: str, finding: str, check: Check, written: Write
) -> None:
    found = check(written(GOOD), flag, "gold")[finding]
    assert found.state == "fault"
    assert_refusal(found.sentence, "'gold'", flag, "'input', 'label'")


def test_an_empty_file_and_one_that_is_not_utf_8_are_told(check: Check, written: Write) -> None:
    path = written("", "")
    assert_refusal(check(path)["rows"].sentence, str(path), "empty")
    path.write_text(json.dumps(GOOD), encoding="utf-16")
    assert_refusal(check(path)["rows"].sentence, str(path), "UTF-16", "UTF-8")


def test_each_file_of_a_mixture_and_the_evaluations_file_are_looked_at(
    settings: Callable[..., Settings], tmp_path: Path
) -> None:
    paths = [tmp_path / f"{name}.jsonl" for name in ("good", "bad", "worse")]
    for path, row in zip(paths, (GOOD, "oops", "oops"), strict=True):
        path.write_text(json.dumps(row) + "\n")
    mixture = f"{paths[0]}, {paths[1]}"
    asked = settings("--data.prompt_dataset", mixture, "--data.label_key", "label", "--eval.dataset", paths[2])
    faults = [finding.sentence for finding in check_data(asked, lambda: None) if finding.state == "fault"]
    assert [fault.partition(":")[0] for fault in faults] == [str(path) for path in paths[1:]]


@pytest.mark.parametrize(
    "source", ["org/dataset-on-a-hub", "data/a.jsonl,data/b.jsonl", "no/such.jsonl", "array.json", "text.txt"]
)
def test_what_is_no_file_of_json_lines_here_is_left_to_openrlhf(
    source: str, check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("array.json").write_text(json.dumps([GOOD]))
    Path("text.txt").write_text("oops")
    (found,) = check(Path(source)).values()
    assert found.state == "skipped"


# Labels


def test_without_a_label_key_no_labels_are_asked_for(settings: Callable[..., Settings], written: Write) -> None:
    asked = settings("--data.prompt_dataset", written({"input": "Say hello."}))
    assert not [finding for finding in check_data(asked, lambda: None) if finding.state in ("fault", "warning")]


# Repeats


def test_prompts_that_come_again_are_counted(check: Check, written: Write) -> None:
    chat = [{"role": "user", "content": "6*7?"}]
    path = written(GOOD, {"input": "6*8?", "label": "48"}, GOOD, {"input": chat, "label": "42"}, GOOD)
    found = check(path)["repeats"]
    assert found.state == "warning"
    assert_refusal(found.sentence, f"{path}: 2 ", "lines 3 and 5")


def test_a_prompt_with_two_labels_is_named(check: Check, written: Write) -> None:
    path = written(GOOD, {"input": "6*7?", "label": "43"})
    found = check(path)["repeats"]
    assert found.state == "warning"
    assert_refusal(found.sentence, str(path), "another label in line 2")


# Lengths


@pytest.mark.parametrize(
    ("prompt", "state"),
    [
        ("What is 1 + 1?", "warning"),
        (r"What is 1 + 1? Put the answer within \boxed{}.", "ok"),
        ([{"role": "user", "content": r"What is 1 + 1? Put the answer within \boxed{}."}], "ok"),
    ],
)
def test_prompts_that_do_not_ask_for_a_boxed_answer_are_told(
    settings: Callable[..., Settings], written: Write, prompt: Any, state: str
) -> None:
    flags = ["--data.prompt_dataset", written({"input": prompt, "label": "2"}), "--data.label_key", "label"]
    (found,) = check_answers(settings(*flags))
    assert (found.name, found.state) == ("data: answers", state)
    assert ("openrlhf-gtpo data prepare" in found.sentence) == (state == "warning")
    assert check_answers(settings(*flags, "--reward.remote_url", "mine.py")) == [], "who knows what it wants"


def prompt(n: int) -> dict[str, str]:
    """A row whose prompt has n characters."""
    return {"input": "x" * n, "label": "1"}


@pytest.fixture
def lengths(check: Check, tokenizer: Any) -> Callable[..., Finding]:
    def checked(path: Path, max_len: int, max_new_tokens: int | None) -> Finding:
        flags = ["--data.apply_chat_template", "--data.max_len", max_len]
        flags += [] if max_new_tokens is None else ["--rollout.max_new_tokens", max_new_tokens]
        return check(path, *flags, tokenizer=tokenizer)["lengths"]

    return checked


def test_a_prompt_may_have_as_many_tokens_as_the_response_leaves(
    lengths: Callable[..., Finding], written: Write
) -> None:
    path = written(prompt(7), prompt(4))  # and 3 tokens of the template
    found = lengths(path, 30, 20)
    assert found.state == "ok"
    assert "10 tokens (line 1), " in found.sentence
    assert "room for 10 (" in found.sentence


def test_a_longer_prompt_is_named(lengths: Callable[..., Finding], written: Write) -> None:
    path = written(prompt(4), prompt(8), prompt(2), prompt(10))
    found = lengths(path, 30, 20)
    assert found.state == "fault"
    sizes = ("2 of 4 ", " 10 tokens", "--data.max_len 30", "--rollout.max_new_tokens 20")
    assert_refusal(found.sentence, str(path), *sizes, "lines 2 and 4", "13 in line 4")


def test_without_a_length_of_the_response_one_token_is_left_for_it(
    lengths: Callable[..., Finding], written: Write
) -> None:
    path = written(prompt(7))
    assert lengths(path, 11, None).state == "ok"
    assert lengths(path, 10, None).state == "fault"


def test_a_chat_that_the_template_refuses_is_named(
    lengths: Callable[..., Finding], written: Write, tokenizer: Any
) -> None:
    tokenizer.chat_template = (
        "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}<user>"
    )
    path = written(prompt(3), {"input": [{"role": "system", "content": "x"}], "label": "1"})
    found = lengths(path, 100, 20)
    assert found.state == "fault"
    assert_refusal(found.sentence, "line 2", "(no system)")


def test_of_many_rows_a_sample_spread_over_the_file_is_measured(
    lengths: Callable[..., Finding], written: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "SAMPLE", 5)
    found = lengths(written(*[prompt(n) for n in range(1, 18)]), 40, 20)
    assert "5 sampled (of 17)" in found.sentence
    assert "20 tokens (line 17)" in found.sentence


# References


@pytest.fixture
def references(settings: Callable[..., Settings]) -> Callable[..., Finding]:
    def checked(path: Path, client: ClientSettings) -> Finding:
        (found,) = check_references(settings("--data.prompt_dataset", path, "--data.label_key", "label"), client)
        return found

    return checked


def of(service: EmbeddedService) -> ClientSettings:
    return ClientSettings((service.url,), token=service.token)


def test_references_that_the_real_grader_reads_are_right(
    references: Callable[..., Finding], written: Write, service: EmbeddedService
) -> None:
    path = written(GOOD, {"input": "1/2?", "label": r"\frac{1}{2}"}, {"input": "x?", "label": "(1, 2)"})
    found = references(path, of(service))
    assert (found.state, "each of 3 references" in found.sentence) == ("ok", True)


def test_references_that_the_real_grader_cannot_read_are_named(
    references: Callable[..., Finding], written: Write, service: EmbeddedService
) -> None:
    bad = r"\boxed{}"
    path = written(GOOD, {"input": "a?", "label": bad}, {"input": "b?", "label": "2"}, {"input": "c?", "label": bad})
    found = references(path, of(service))
    assert found.state == "fault"
    assert_refusal(found.sentence, str(path), "2 of 4 references", "lines 2 and 4", repr(bad))


def test_a_service_that_goes_away_while_it_grades_is_told(
    references: Callable[..., Finding], written: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "GRADING_SECONDS", 0.5)
    with FakeRewardServer(always=lambda post: Answer(503, {})) as server:
        found = references(written(GOOD), ClientSettings((server.url,)))
    assert found.state == "fault"
    assert_refusal(found.sentence, "HTTP 503")
