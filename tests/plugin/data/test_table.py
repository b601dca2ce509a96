"""Every kind of source gives the same prompts and labels, or one sentence that names the row."""

import csv
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from math_reward.json_lines import NoAnswer
from openrlhf_gtpo.cli import main
from openrlhf_gtpo.data.formats import answer_of
from openrlhf_gtpo.data.sources import DataUnusable, is_local, names_of
from openrlhf_gtpo.data.table import rows

from ...refusals import assert_refusal

Rows = list[dict[str, Any]]


def lines(folder: Path, table: Rows) -> str:
    path = folder / "rows.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(json.dumps(row) for row in table).encode())
    return str(path)


def array(folder: Path, table: Rows) -> str:
    (folder / "rows.json").write_bytes(b"\xef\xbb\xbf" + json.dumps(table, indent=1).encode())
    return str(folder / "rows.json")


def array_in_lines(folder: Path, table: Rows) -> str:
    return str(Path(array(folder, table)).rename(folder / "array.jsonl"))


def cells(folder: Path, table: Rows) -> str:
    path = folder / "rows.csv"
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, table[0])
        writer.writeheader()
        writer.writerows(table)
    return str(path)


def parquet(folder: Path, table: Rows) -> str:
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(table), folder / "rows.parquet", row_group_size=2)
    return str(folder / "rows.parquet")


def stream(folder: Path, table: Rows, name: str = "rows.arrow", kind: Any = pyarrow.ipc.new_stream) -> str:
    path, content = folder / name, pyarrow.Table.from_pylist(table)
    with pyarrow.OSFile(str(path), "wb") as file, kind(file, content.schema) as writer:
        writer.write_table(content)
    return str(path)


def arrow_file(folder: Path, table: Rows) -> str:
    return stream(folder, table, "rows.ARROW", pyarrow.ipc.new_file)


def folder_of_csv(folder: Path, table: Rows) -> str:
    """As hub data sets lie: a split in the name of each file."""
    (folder / "set").mkdir(exist_ok=True)
    Path(cells(folder, table)).rename(folder / "set" / "train.csv")
    Path(cells(folder, [{"input": "held out", "label": "0"}])).rename(folder / "set" / "test.csv")
    return str(folder / "set")


def inside_a_folder(folder: Path, table: Rows) -> str:
    (folder / "sets" / "one").mkdir(parents=True, exist_ok=True)
    Path(lines(folder, table)).rename(folder / "sets" / "one" / "train.jsonl")
    return f"{folder / 'sets'}@one"


def pattern(folder: Path, table: Rows) -> str:
    half = len(table) // 2
    for number, part in enumerate((table[:half], table[half:])):
        Path(lines(folder, part)).rename(folder / f"part-{number}.jsonl")
    return str(folder / "part-*.jsonl")


def saved(folder: Path, table: Rows) -> str:
    datasets.Dataset.from_list(table).save_to_disk(folder / "saved")
    return str(folder / "saved")


WRITERS = [lines, array, array_in_lines, cells, parquet, stream, arrow_file, folder_of_csv, inside_a_folder, pattern]
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), min_size=1, max_size=20).filter(str.strip)
LABEL = TEXT.filter(lambda text: not text.lstrip().startswith("["))  # which may be a list of one answer
ODD = ["007", "1000000000000000000000001", "NA", "None", "true", "2024-01-01", "0.50", "1,007", "[1, 2]", "12:30"]


@pytest.mark.parametrize("write", WRITERS)
@settings(max_examples=25, deadline=None)
@given(pairs=st.lists(st.tuples(TEXT, LABEL | st.sampled_from(ODD)), min_size=2, max_size=5))
def test_texts_are_what_stands_in_the_file(
    write: Callable[..., str], pairs: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    table = [{"input": prompt, "label": label} for prompt, label in pairs]
    source = write(tmp_path_factory.mktemp("rows"), table)
    assert [(row.prompt, row.label) for row in rows(source, "input", "label")] == pairs


def test_labels_that_look_like_other_things_are_texts_in_a_saved_data_set_too(tmp_path: Path) -> None:
    table = [{"input": "?", "label": label, "more": "1"} for label in ODD]
    splits = datasets.DatasetDict({"train": datasets.Dataset.from_list(table)})
    splits.save_to_disk(tmp_path / "splits")
    for source in (saved(tmp_path, table), str(tmp_path / "splits")):
        assert [row.label for row in rows(source, "input", "label")] == ODD


def test_the_only_split_is_taken_for_train_and_for_no_other_name(tmp_path: Path) -> None:
    datasets.DatasetDict({"validation": datasets.Dataset.from_list([{"input": "?", "label": "7"}])}).save_to_disk(
        tmp_path / "one"
    )
    assert [row.label for row in rows(str(tmp_path / "one"), "input", "label", split="train")] == ["7"]
    with pytest.raises(DataUnusable, match="splits validation, and no test"):
        list(rows(str(tmp_path / "one"), "input", "label", split="test"))


CHATS = [
    [{"role": "system", "content": "Answer in French."}, {"role": "user", "content": "1+1?"}],
    [
        {"role": "user", "content": "Let x=3."},
        {"role": "assistant", "content": "ok", "name": "a"},
        {"role": "user", "content": "x+1?"},
    ],
]


@pytest.mark.parametrize("write", [lines, array, parquet, stream, saved])
def test_chats_keep_every_turn_and_verls_labels_are_read(write: Callable[..., str], tmp_path: Path) -> None:
    table = [
        {"prompt": chat, "reward_model": {"style": "rule", "ground_truth": label}, "extra_info": {"index": 1}}
        for chat, label in zip(CHATS, ("2", "4"), strict=True)
    ]
    found = list(rows(write(tmp_path, table), "prompt", "reward_model"))
    assert [row.prompt for row in found] == CHATS, "without the null names that columns have"
    assert [row.label for row in found] == ["2", "4"]


@pytest.mark.parametrize("write", [lines, array, parquet, stream, saved])
def test_a_raw_file_of_sharegpt_is_a_prompt_or_named_with_the_command_that_takes_it_apart(
    write: Callable[..., str], tmp_path: Path
) -> None:
    """As prepared: the same parser reads it."""
    turns = [{"from": "system", "value": "In French."}, {"from": "human", "value": "1+1?"}]
    chat = [{"role": "system", "content": "In French."}, {"role": "user", "content": "1+1?"}]
    source = write(tmp_path, [{"conversations": turns, "answer": "2"}] * 2)
    assert [(row.prompt, row.label) for row in rows(source, "conversations", "answer")] == [(chat, "2")] * 2

    source = write(tmp_path, [{"conversations": [*turns, {"from": "gpt", "value": r"C'est \boxed{2}."}]}] * 2)
    for column in ("conversations", "input"):
        with pytest.raises(DataUnusable) as refused:
            list(rows(source, column, "label"))
        assert_refusal(str(refused.value), source, " 1: ", f"`openrlhf-gtpo data prepare other --from {source} ")
        assert ("--input_key conversations" in str(refused.value)) == (column == "conversations")
    command = re.search(r"`openrlhf-gtpo (.*)`", str(refused.value))
    assert command
    assert main([*shlex.split(command[1])[:-1], str(tmp_path / "out")]) == 0
    (row,) = rows(str(tmp_path / "out" / "other.jsonl"), "input", "label")
    assert (row.prompt[:1], row.label) == (chat[:1], "2")


def test_a_call_of_a_tool_is_a_message_without_content(tmp_path: Path) -> None:
    call = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "add", "arguments": "{}"}}]}
    chat = [CHATS[1][0], call, {"role": "tool", "content": "2"}]
    (row,) = rows(lines(tmp_path, [{"input": chat, "label": "2"}]), "input", "label")
    assert row.prompt == [chat[0], call | {"content": ""}, chat[2]]


@pytest.mark.parametrize("write", [lines, cells, parquet])
def test_alpacas_instruction_is_sent_with_its_input(write: Callable[..., str], tmp_path: Path) -> None:
    table = [{"instruction": "Add:", "input": more, "label": "2"} for more in ("1 + 1", " ")]
    found = [row.prompt for row in rows(write(tmp_path, table), "instruction", "label")]
    assert found == ["Add:\n\n1 + 1", "Add:"]


@pytest.mark.parametrize("written", [json.dumps, str, lambda chat: json.dumps(chat, indent=1)])
def test_a_chat_in_a_cell_of_text_is_a_chat_and_mathematics_is_none(
    written: Callable[[Any], str], tmp_path: Path
) -> None:
    sharegpt = written([{"from": "human", "value": "1+1?"}])
    texts = [written(CHATS[1]), '[{"role": "user", "content": "cut', "[{1}, {2}] has how many sets?", sharegpt]
    source = cells(tmp_path, [{"input": text, "label": "1"} for text in texts])
    found = [row.prompt for row in rows(source, "input", "label")]
    assert found == [CHATS[1], *texts[1:3], [{"role": "user", "content": "1+1?"}]]


@pytest.mark.parametrize(
    ("value", "label"),
    [
        ({"ground_truth": "3", "style": "rule"}, "3"),
        ({"answer": [7]}, "7"),
        (["3"], "3"),
        ([{"target": 2.0}], "2"),
        ('["3"]', "3"),
        ("['x+1']", "x+1"),
        (r'["\\frac{1}{2}"]', r"\frac{1}{2}"),
        ("[3]", "[3]"),
        ("[]", "[]"),  # an empty list of numbers is mathematics
        ('"3"', '"3"'),
        ("{1, 2}", "{1, 2}"),
    ],
)
def test_an_answer_in_an_object_or_a_list_of_one_is_that_answer(value: Any, label: str) -> None:
    assert answer_of(value) == label


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ({"style": "rule"}, "object"),
        ({"target": "98", "numbers": [44, 19, 35]}, "more than an answer"),
        (["1", "2"], "list of 2"),
        ([], "list of 0"),
        (1e24, "lost digits"),
        (" ", "empty"),
        (None, "null"),
        (True, "true or false"),
        (float("nan"), "not a number"),
    ],
)
def test_what_is_no_answer_is_never_made_one(value: Any, what: str) -> None:
    with pytest.raises(NoAnswer, match=what):
        answer_of(value)


def test_digits_that_a_number_would_lose_are_kept_where_the_file_has_them(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    numbers = ["1000000000000000000000001", "0.1000000000000000000001", "9007199254740993.0", "42.0", "0.5"]
    path.write_text("".join(f'{{"input": "?", "label": {number}}}\n' for number in numbers))
    assert [row.label for row in rows(str(path), "input", "label")] == [*numbers[:3], "42", "0.5"]


BAD: list[tuple[Callable[..., str], dict[str, Any], str]] = [
    (lines, {"label": {"style": "rule"}}, "line 3: its 'label' is an object"),
    (lines, {"input": CHATS[1][:2]}, "line 3: its 'input' ends with a message of 'assistant'"),
    (lines, {"input": [{"role": "human", "content": "1+1?"}]}, "line 3: its 'input' ends with a message of 'human'"),
    (cells, {"input": json.dumps(CHATS[0][:1])}, "row 3: its 'input' ends with a message of 'system'"),
    (lines, {"input": [{"role": "user", "content": " "}]}, "line 3: its 'input' is empty"),
    (lines, {"input": "[{'role': 'user', 'content': ''}]"}, "line 3: its 'input' is empty"),
    (array, {"label": None}, "row 3: its 'label' is null"),
    (cells, {"label": ""}, "row 3: its 'label' is empty"),
    (parquet, {"label": None}, "row 3: its 'label' is null"),
    (stream, {"input": None}, "row 3: its 'input' is null"),
    (folder_of_csv, {"label": ""}, "train.csv, row 3: its 'label' is empty"),
    (saved, {"label": None}, "row 3: its 'label' is null"),
]


@pytest.mark.parametrize(("write", "change", "said"), BAD)
def test_a_bad_row_is_named_whatever_the_file(
    write: Callable[..., str], change: dict[str, Any], said: str, tmp_path: Path
) -> None:
    good = {"input": "?", "label": "1"}
    source = write(tmp_path, [good, good, good | change, good])
    with pytest.raises(DataUnusable) as refused:
        list(rows(source, "input", "label"))
    assert_refusal(str(refused.value), source.partition("@")[0], said)


@pytest.mark.parametrize("write", [lines, array, cells, parquet, stream, saved])
def test_a_column_that_is_not_there_is_named_with_those_that_are(write: Callable[..., str], tmp_path: Path) -> None:
    source = write(tmp_path, [{"input": "?", "answer": "1"}])
    with pytest.raises(DataUnusable) as refused:
        list(rows(source, "input", "label"))
    assert_refusal(str(refused.value), "looked for 'label'", "--data.label_key", "'input', 'answer'")


BROKEN = [
    ("rows.jsonl", b'{"input": "?"', "line 1"),
    ("rows.jsonl", "{}".encode("utf-16"), "UTF-16"),
    ("rows.json", b'{"data":\n[{}]}', "one array of them"),
    ("rows.json", b"[1]", "row 1"),
    ("rows.json", b'[{"input": "?"', "truncated"),
    ("rows.json", '[{"input": "caf\u00e9"}]'.encode("latin-1"), "UTF-8"),
    ("rows.csv", b"input,label\n?,1,2\n", "row 1: it has more cells"),
    ("rows.parquet", b"PAR1 no more", "cannot be read"),
    ("rows.arrow", b"nothing", "cannot be read"),
    ("rows.jsonl", b"", "is empty"),
    ("rows.csv", b"input,label\n", "is empty"),
    ("rows.tsv", b"input\tlabel\n", "unknown kind"),
]


@pytest.mark.parametrize(("name", "content", "said"), BROKEN)
def test_a_file_that_is_damaged_or_of_another_kind_is_one_sentence(
    name: str, content: bytes, said: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataUnusable) as refused:
        list(rows(str(tmp_path / name), "input", "label"))
    assert_refusal(str(refused.value), str(tmp_path / name), said)


@pytest.mark.parametrize("name", ["my dir é [x]/tr ain.jsonl", "me@corp/train.jsonl", "a,b/train.jsonl"])
def test_a_file_that_is_there_is_taken_as_it_is(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir()
    Path(lines(tmp_path, [{"input": "?", "label": "1"}])).rename(path)
    assert names_of(str(path)) == [str(path)]
    assert is_local(str(path))
    assert [row.label for row in rows(str(path), "input", "label")] == ["1"]
