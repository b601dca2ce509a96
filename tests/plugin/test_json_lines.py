"""What ends a line of a JSON-lines file."""

import json
from pathlib import Path

from openrlhf_gtpo.json_lines import lines_of


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    texts = ["one\u2028line", "another\u0085one", "a form\ffeed", "carriage\rreturn"]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts), "utf-8")
    assert [json.loads(line)["text"] for line in lines_of(path)] == texts


def test_a_last_line_without_an_end_is_a_line_and_an_empty_file_has_none(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("1\n\n2")
    assert lines_of(path) == ["1", "", "2"]
    path.write_text("")
    assert lines_of(path) == []
