"""What ends a line of a JSON-lines file, and where a line begins; what else is read, tests/test_json_lines_of_both.py
asks of the service's reader too."""

import json
from pathlib import Path

import pytest

from openrlhf_gtpo.data.json_lines import Unreadable, is_lines, lines_of, object_of


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    texts = ["one\u2028line", "another\u0085one", "a form\ffeed", "carriage\rreturn"]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts), "utf-8")
    assert [object_of(line.content)["text"] for line in lines_of(path)] == texts


def test_lines_have_their_number_and_their_place_and_blank_ones_are_none(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\xef\xbb\xbf\r\n{}\n\n \t\r\n{}")
    assert list(lines_of(path)) == [(2, 5, b"{}\n"), (5, 13, b"{}")]
    path.write_text("")
    assert list(lines_of(path)) == []


def test_a_file_that_cannot_be_opened_is_half_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match=r"^No such file or directory$"):
        list(lines_of(tmp_path / "none.jsonl"))
    with pytest.raises(Unreadable, match=r"^Is a directory$"):
        list(lines_of(tmp_path))


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("rows.jsonl", b"[1]", True),
        ("rows.json", b'{"input": 1}', True),
        ("rows.json", b' \n[{"input": 1}]', False),
        ("rows.json", b"\xef\xbb\xbf[]", False),
    ],
)
def test_an_array_is_told_from_lines(tmp_path: Path, name: str, content: bytes, expected: bool) -> None:
    (tmp_path / name).write_bytes(content)
    assert is_lines(tmp_path / name) is expected
