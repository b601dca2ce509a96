"""A data set becomes prompts and labels, and every reference is checked by the real grader."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openrlhf_gtpo.cli import main
from openrlhf_gtpo.data.formats import UnknownFormat, question_and_reference
from openrlhf_gtpo.data.prepare import INSTRUCTION

from ...refusals import assert_refusal

Write = Callable[..., Path]

VERL_QUESTION = 'How many? Let\'s think step by step and output the final answer after "####".'
TURNS = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Let x=3."},
    {"role": "assistant", "content": "ok"},
    {"role": "user", "content": "x+1?"},
]


TEXT, PICTURE = {"type": "text", "text": "Q?"}, {"type": "image", "image": "a.png"}


def sharegpt(*turns: str) -> list[dict[str, str]]:
    return [{"from": ("human", "gpt")[place % 2], "value": turn} for place, turn in enumerate(turns)]


def prepare(name: str, source: Path | str, out: Path, *flags: str) -> int:
    return main(["data", "prepare", name, "--from", str(source), "--out", str(out), *flags])


def prepared(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    ("name", "row", "expected"),
    [
        ("amc23", {"id": 1, "problem": "Q?", "answer": 27.0}, ("Q?", "27")),
        ("aime24", {"year": 2024, "problem": "Q?", "answer": 73}, ("Q?", "73")),
        ("aime24", {"year": 2025, "problem": "Q?", "answer": 73}, None),
        ("aime24", {"year": "2024-I", "problem": "Q?", "answer": 73}, ("Q?", "73")),
        (
            "other",
            {
                "data_source": "openai/gsm8k",
                "prompt": [{"role": "user", "content": VERL_QUESTION}],
                "reward_model": {"style": "rule", "ground_truth": "3"},
            },
            ("How many?", "3"),
        ),
        ("other", {"input": " Q? ", "label": "0.5"}, ("Q?", "0.5")),
        ("other", {"prompt": TURNS, "answer": 4}, (TURNS, "4")),
        ("other", {"instruction": "Add:", "input": "", "output": "2"}, ("Add:", "2")),
        ("other", {"instruction": "Add:", "input": "1 + 1", "output": r"\boxed{2}"}, ("Add:\n\n1 + 1", "2")),
        ("other", {"conversations": sharegpt("2+2?", r"So \boxed{4}.")}, ("2+2?", "4")),
        ("other", {"conversations": sharegpt("2+2?", "Four."), "answer": 4}, ("2+2?", "4")),
        (
            "other",
            {"messages": [*TURNS, {"role": "assistant", "content": [{"type": "text", "text": "so\n#### 4"}]}]},
            (TURNS, "4"),
        ),
        ("other", {"messages": [{"role": "user", "content": [TEXT, TEXT]}], "answer": 1}, ("Q?Q?", "1")),
        ("other", {"problem": "Q?", "final_answer": ["2"]}, ("Q?", "2")),
        ("other", {"problem": "Q?", "reward_model": {"style": "rule"}, "answer": "5"}, ("Q?", "5")),
    ],
)
def test_each_format_gives_its_question_and_its_reference(
    name: str, row: dict[str, Any], expected: tuple[Any, str] | None
) -> None:
    assert question_and_reference(name, row) == expected


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"answer": 1}, "no prompt"),
        ({"problem": "Q?"}, "no reference"),
        ({"problem": "", "answer": 1}, "its 'problem' is empty"),
        ({"problem": "Q?", "answer": None, "solution": "without a box"}, "no reference"),
        ({"problem": "Q?", "answer": ["1", "2"]}, "list of 2"),
        ({"conversations": sharegpt("Q?", "Four.")}, "neither a box nor ####"),
        (
            {"problem": "Which?", "choices": ["apple", "pear"], "answer": 1},
            "its answer '1' stands for one of its choices",
        ),
        ({"conversations": [{"from": "human"}], "answer": 1}, "neither a text nor a list of chat messages"),
        ({"prompt": TURNS[:3], "answer": 1}, "ends with a message of 'assistant'"),
        ({"prompt": [{"role": "user", "content": [PICTURE]}], "answer": 1}, "a question by the user, which is a text"),
    ],
)
def test_a_row_without_a_question_or_a_reference_is_refused(row: dict[str, Any], words: str) -> None:
    with pytest.raises(UnknownFormat, match=words):
        question_and_reference("other", row)


def test_a_reference_that_cannot_be_graded_is_named_and_ends_with_status_one(
    tmp_path: Path, written: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    source = written({"problem": "a", "answer": "42"}, {"problem": "b", "answer": r"\frac{1}{"})
    assert prepare("other", source, tmp_path) == 1
    said = capsys.readouterr()
    assert_refusal(said.err, f"{source}, line 2: '\\\\frac{{1}}{{' cannot be graded")
    assert "1 with an answer that the grader cannot read: --drop-ungradable leaves them out\n" in said.out
    assert prepare("other", source, tmp_path, "--drop-ungradable") == 0
    assert [row["label"] for row in prepared(tmp_path / "other.jsonl")] == ["42"]


def test_prompts_ask_for_the_box_and_a_chat_keeps_its_turns(tmp_path: Path, written: Write) -> None:
    asks = {"prompt": r"Box it in \boxed{}: 1+1?", "answer": 2}
    source = written({"prompt": TURNS, "answer": 4}, asks, "", {"problem": "6*7?", "answer": "42"})
    assert prepare("other", source, tmp_path / "out") == 0
    first, second, third = prepared(tmp_path / "out" / "other.jsonl")
    assert first["input"] == [*TURNS[:3], {"role": "user", "content": f"x+1?\n\n{INSTRUCTION}"}]
    assert second["input"] == r"Box it in \boxed{}: 1+1?", "it asks already"
    assert third == {"input": f"6*7?\n\n{INSTRUCTION}", "label": "42"}


def test_what_cannot_be_graded_is_counted_by_its_kind(
    tmp_path: Path, written: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        *(("a", "42"), ("a", "84/2"), ("b", "1"), ("b", "2"), ("c", "proof"), ("d", "notfound")),
        *(
            ("e", "The claim holds for every $n$ by induction"),
            ("f", None),
            ("h", "It is equal to seven"),
            ("g", r"\text{3 hours and 20 minutes}"),
        ),
    ]
    source = written(*({"problem": problem, "answer": answer} for problem, answer in rows))
    assert prepare("other", source, tmp_path) == 1
    assert "two different answers" in (said := capsys.readouterr()).out
    assert f"{source}, line 3: '1' and '2'" in said.err
    assert prepare("other", source, tmp_path, "--drop-ungradable") == 0
    assert json.loads((tmp_path / "other.counts.json").read_text()) == {
        "prompts": 2,
        "repeated": 2,
        "no question or no answer": 1,
        "a proof or a note in place of an answer": 2,
        "a sentence as the answer": 2,
        "two different answers to one question": 1,
    }
    labels = [row["label"] for row in prepared(tmp_path / "other.jsonl")]
    assert labels == ["42", r"\text{3 hours and 20 minutes}"]


REFUSED: list[tuple[str, list[Any], str]] = [
    ("other", ["{broken"], "line 1"),
    ("aime25", [{"year": 2024, "problem": "a", "answer": 1}], "no rows of aime25"),
    (
        "other",
        [{"problem": "a", "output": "long text"}],
        "no reference answer: its 'output' has neither a box nor ####",
    ),
    (
        "other",
        [{"q": "1+1?", "a": "2"}],
        "no prompt (looked for 'problem', 'question', 'prompt', 'instruction', 'input')",
    ),
    ("other", [{"q": "1+1?", "a": "2"}], "its columns are 'q', 'a': choose one by --input_key."),
    ("other", [{"problem": "1+1?", "a": "2"}], "its columns are 'problem', 'a': choose one by --label_key."),
]


@pytest.mark.parametrize(("name", "rows", "named"), REFUSED)
def test_rows_that_are_not_understood_are_refused_in_one_sentence(
    tmp_path: Path, written: Write, name: str, rows: list[Any], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(*rows)
    assert prepare(name, path, tmp_path / "out") == 2
    assert_refusal(capsys.readouterr().err, str(path), named)


def test_columns_of_other_names_are_chosen(tmp_path: Path, written: Write, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"q": "1+1?", "a": "2"}, {"q": "2+2?", "a": r"It is \boxed{4}."}, {"q": "3+3?", "a": 6}]
    source = written(*rows, {"q": "4+4?", "a": "so\n#### 8"})
    chosen = ["--input_key", "q", "--label_key", "a"]
    assert prepare("other", source, tmp_path / "out", *chosen, "--instruction", "") == 0
    found = [(row["input"], row["label"]) for row in prepared(tmp_path / "out" / "other.jsonl")]
    assert found == [("1+1?", "2"), ("2+2?", "4"), ("3+3?", "6"), ("4+4?", "8")]
    assert prepare("other", source, tmp_path / "out", "--input_key", "q", "--label_key", "b") == 2
    assert_refusal(capsys.readouterr().err, "no reference answer (looked for 'b')", "'q', 'a'", "--label_key")


def test_a_hub_id_without_internet_access_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    assert prepare("dapo17k", "nobody/nothing-of-this-name", tmp_path) == 2
    assert_refusal(capsys.readouterr().err.splitlines()[-1], "nobody/nothing-of-this-name ", "give a file")
