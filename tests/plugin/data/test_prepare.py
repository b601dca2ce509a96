"""A data set becomes prompts and labels, and every reference is checked by the real grader."""

import json
from pathlib import Path
from typing import Any

import pytest

from openrlhf_gtpo.cli import main
from openrlhf_gtpo.data.formats import UnknownFormat, question_and_reference
from openrlhf_gtpo.data.prepare import INSTRUCTION

from ...refusals import assert_refusal

DAPO_QUESTION = (
    "Solve the following math problem step by step. The last line of your response should be of the form Answer: "
    "$Answer (without quotes) where $Answer is the answer to the problem.\n\nWhat is $6 \\cdot 7$?\n\n"
    'Remember to put your answer on its own line after "Answer:".'
)


def rows_to(path: Path, *rows: Any) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def prepare(name: str, source: Path | str, out: Path, *flags: str) -> int:
    return main(["data", "prepare", name, "--from", str(source), "--out", str(out), *flags])


@pytest.mark.parametrize(
    ("name", "row", "expected"),
    [
        ("math500", {"problem": "Q?", "solution": "long", "answer": r"\frac{1}{2}"}, ("Q?", r"\frac{1}{2}")),
        ("gsm8k", {"question": "Q?", "answer": "3 + 4 = <<3+4=7>>7\n#### 1,007"}, ("Q?", "1,007")),
        ("amc23", {"id": 1, "problem": "Q?", "answer": 27.0}, ("Q?", "27")),
        ("aime24", {"year": 2024, "problem": "Q?", "answer": 73}, ("Q?", "73")),
        ("aime24", {"year": 2025, "problem": "Q?", "answer": 73}, None),
        ("aime25", {"year": "2025", "problem": "Q?", "answer": 73}, ("Q?", "73")),
        (
            "dapo17k",
            {"prompt": [{"role": "user", "content": DAPO_QUESTION}], "reward_model": {"ground_truth": "42"}},
            ("What is $6 \\cdot 7$?", "42"),
        ),
        ("other", {"input": " Q? ", "label": "0.5"}, ("Q?", "0.5")),
    ],
)
def test_each_format_gives_its_question_and_its_reference(
    name: str, row: dict[str, Any], expected: tuple[str, str] | None
) -> None:
    assert question_and_reference(name, row) == expected


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"answer": 1}, "no question"),
        ({"problem": "Q?"}, "no reference"),
        ({"problem": "", "answer": 1}, "no question"),
    ],
)
def test_a_row_without_a_question_or_a_reference_is_refused(row: dict[str, Any], words: str) -> None:
    with pytest.raises(UnknownFormat, match=words):
        question_and_reference("other", row)


def test_prompts_ask_for_a_box_and_come_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = rows_to(
        tmp_path / "rows.jsonl",
        {"problem": "6*7?", "answer": "42"},
        "",
        {"problem": "6*7?", "answer": "42"},
        {"problem": "1/2+1/2?", "answer": 1},
    )
    assert prepare("other", source, tmp_path / "out") == 0
    lines = [json.loads(line) for line in (tmp_path / "out" / "other.jsonl").read_text().splitlines()]
    assert lines == [
        {"input": f"6*7?\n\n{INSTRUCTION}", "label": "42"},
        {"input": f"1/2+1/2?\n\n{INSTRUCTION}", "label": "1"},
    ]
    assert "2 prompts; 1 repeated" in capsys.readouterr().out


def test_a_reference_that_cannot_be_graded_is_named_and_ends_with_status_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = rows_to(
        tmp_path / "rows.jsonl", {"problem": "a", "answer": "42"}, {"problem": "b", "answer": r"\frac{1}{"}
    )
    assert prepare("other", source, tmp_path) == 1
    said = capsys.readouterr()
    assert "other.jsonl, line 2: '\\\\frac{1}{' " in said.err
    assert "1 references cannot be graded" in said.out
    assert prepare("other", source, tmp_path, "--drop-ungradable") == 0
    assert [json.loads(line)["label"] for line in (tmp_path / "other.jsonl").read_text().splitlines()] == ["42"]


@pytest.mark.parametrize("ending", ["jsonl", "json"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_a_byte_order_mark_and_windows_line_ends_are_read(tmp_path: Path, ending: str, bom: bytes) -> None:
    rows = [json.dumps({"problem": f"{n}*7?", "answer": label}) for n, label in ((6, "42"), (7, 49.0))]
    array = ending == "json"
    text = f"[{','.join(rows)}]" if array else "\r\n".join(rows)
    path = tmp_path / f"rows.{ending}"
    path.write_bytes(bom + text.encode())
    assert prepare("other", path, tmp_path / "out") == 0
    lines = (tmp_path / "out" / "other.jsonl").read_text().splitlines()
    assert [json.loads(line)["label"] for line in lines] == ["42", "49"]


@pytest.mark.parametrize("ending", ["jsonl", "json"])
@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_another_encoding_is_one_sentence(
    tmp_path: Path, ending: str, encoding: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"rows.{ending}"
    path.write_text('[{"problem": "caf\u00e9?", "answer": "42"}]', encoding=encoding)
    assert prepare("other", path, tmp_path / "out") == 2
    assert_refusal(capsys.readouterr().err, f"openrlhf-gtpo data: error: {path}", "UTF-8")


@pytest.mark.parametrize("ending", ["parquet", "csv", "json"])
def test_other_kinds_of_files_are_read_too(tmp_path: Path, ending: str) -> None:
    import datasets

    table = datasets.Dataset.from_list([{"problem": "6*7?", "answer": "42"}, {"problem": "7*8?", "answer": "56"}])
    path = tmp_path / f"rows.{ending}"
    getattr(table, f"to_{ending}")(str(path))
    assert prepare("other", path, tmp_path / "out") == 0
    assert len((tmp_path / "out" / "other.jsonl").read_text().splitlines()) == 2


REFUSED: list[tuple[str, list[Any], str]] = [
    ("other", ["{broken"], "line 1"),
    ("other", [{"problem": "a", "answer": 1}, {"problem": "a"}], "row 2"),
    ("aime25", [{"year": 2024, "problem": "a", "answer": 1}], "no rows of aime25"),
]


@pytest.mark.parametrize(("name", "rows", "named"), REFUSED)
def test_rows_that_are_not_understood_are_refused_in_one_sentence(
    tmp_path: Path, name: str, rows: list[Any], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = rows_to(tmp_path / "rows.jsonl", *rows)
    assert prepare(name, path, tmp_path / "out") == 2
    assert_refusal(capsys.readouterr().err, str(path), named)


@pytest.mark.parametrize("source", ["nowhere.jsonl", "./nowhere", "/nowhere/rows.csv", "just-a-name"])
def test_a_source_that_is_neither_file_nor_hub_id_is_refused_without_asking_the_network(
    tmp_path: Path, source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert prepare("other", source, tmp_path) == 2
    assert_refusal(capsys.readouterr().err, f"--from {source}", "OWNER/NAME")


@pytest.fixture
def two_configurations(tmp_path: Path) -> Path:
    """A data set as the hub has GSM8K: two configurations, each with two splits."""
    names = ("main", "socratic")
    for name in names:
        for split in ("train", "test"):
            row = {"question": f"{name} {split}?", "answer": "so\n#### 7"}
            rows_to(tmp_path / "set" / f"{name}-{split}.jsonl", row)
    files = "".join(
        f"- config_name: {name}\n  data_files:\n"
        + "".join(f"  - split: {split}\n    path: {name}-{split}.jsonl\n" for split in ("train", "test"))
        for name in names
    )
    (tmp_path / "set" / "README.md").write_text(f"---\nconfigs:\n{files}---\n")
    return tmp_path / "set"


def test_a_configuration_and_a_split_of_a_data_set_are_chosen(tmp_path: Path, two_configurations: Path) -> None:
    assert prepare("gsm8k", two_configurations, tmp_path, "--config", "main", "--split", "train") == 0
    (line,) = map(json.loads, (tmp_path / "gsm8k.jsonl").read_text().splitlines())
    assert line == {"input": f"main train?\n\n{INSTRUCTION}", "label": "7"}


def test_a_data_set_of_several_configurations_asks_for_one(
    tmp_path: Path, two_configurations: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert prepare("gsm8k", two_configurations, tmp_path, "--split", "train") == 2
    assert_refusal(capsys.readouterr().err.splitlines()[-1], "main, socratic", "--config")


def test_a_hub_id_without_internet_access_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    assert prepare("dapo17k", "nobody/nothing-of-this-name", tmp_path) == 2
    assert_refusal(capsys.readouterr().err.splitlines()[-1], "--from nobody/nothing-of-this-name ", "give a file")
