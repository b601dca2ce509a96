"""The reader of JSON lines, which the plugin and the service share: what a line is, what a row and what an answer; and
that everything that reads a data set grades against the same text."""

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from math_reward.http.requests import GradeItem
from math_reward.json_lines import NoAnswer, NoRow, label_text, lines_of, object_of
from math_reward.pool.item import DEFAULT_OPTIONS
from openrlhf_gtpo.data.formats import question_and_reference as prepared
from openrlhf_gtpo.data.sources import DataUnusable
from openrlhf_gtpo.data.sources import lines as objects
from openrlhf_gtpo.data.table import rows

BOM = b"\xef\xbb\xbf"
TEXTS = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(
    ["42", "0.50", "007", "1e3", "2024-01-01", "true", "[1, 2]", "null", "a\u2028b", "a\u0085b", "a\fb", "caf\u00e9"]
)
NUMBERS = st.integers() | st.floats(-1e15, 1e15) | st.sampled_from([42, 42.0, 0.5])


def rows_of(path: Path) -> list[dict[str, Any] | str]:
    """The object of each line that is not blank, or why there is none."""
    found: list[dict[str, Any] | str] = []
    for line in lines_of(BytesIO(path.read_bytes())):
        try:
            found.append(object_of(line.content))
        except NoRow as error:
            found.append(str(error))
    return found


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rows") / "rows.jsonl"


@given(
    rows=st.lists(st.tuples(TEXTS, TEXTS | NUMBERS), min_size=1, max_size=5),
    end=st.sampled_from(["\n", "\r\n"]),
    bom=st.booleans(),
)
def test_a_byte_order_mark_and_windows_line_ends_change_nothing(
    path: Path, rows: list[tuple[str, Any]], end: str, bom: bool
) -> None:
    written = [{"input": prompt, "label": label} for prompt, label in rows]
    lines = [json.dumps(row, ensure_ascii=False) for row in written]
    path.write_bytes((BOM if bom else b"") + "".join(line + end for line in lines).encode())
    assert rows_of(path) == written


def test_lines_have_their_number_and_their_place_and_blank_ones_are_none(path: Path) -> None:
    path.write_bytes(BOM + b"\r\n{}\n\n \t\r\n{}")
    assert list(lines_of(BytesIO(path.read_bytes()))) == [(2, 5, b"{}\n"), (5, 13, b"{}")]
    assert list(lines_of(BytesIO())) == []


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"])
def test_another_unicode_is_refused_by_its_name(path: Path, encoding: str) -> None:
    path.write_bytes('{"input": "6*7?", "label": "42"}\n'.encode(encoding))
    with pytest.raises(DataUnusable, match=encoding[:6].upper()):
        list(objects(path))


def test_a_file_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    for unusable in (tmp_path / "none.jsonl", tmp_path):
        with pytest.raises(DataUnusable, match="cannot be read"):
            list(objects(unusable))


@pytest.mark.parametrize(
    ("label", "text"),
    [("42", "42"), (42, "42"), (42.0, "42"), (0.5, "0.5"), (-3.0, "-3"), (1e300, "1e+300"), ("0.50", "0.50")],
)
def test_a_number_is_the_text_that_people_write(label: Any, text: str) -> None:
    assert label_text(label) == text


@pytest.mark.parametrize("label", [None, True, False, [], ["1"], {}, float("nan"), float("inf")])
def test_what_is_no_answer_is_refused(label: Any) -> None:
    with pytest.raises(NoAnswer):
        label_text(label)


def usable(text: Any) -> bool:
    return bool(str(text).strip())


@given(pairs=st.lists(st.tuples(TEXTS.filter(usable), (TEXTS | NUMBERS).filter(usable)), min_size=1, max_size=5))
def test_every_command_and_training_grade_against_the_same_text(path: Path, pairs: list[tuple[str, Any]]) -> None:
    """Prepare, the checks, evaluations and training by one reader, and the service."""
    written = [{"input": prompt, "label": label} for prompt, label in pairs]
    path.write_bytes(BOM + "\r\n".join(json.dumps(row) for row in written).encode())
    expected = [label_text(label) for _, label in pairs]
    assert [row.label for row in rows(str(path), "input", "label")] == expected
    assert [GradeItem("", label).item(DEFAULT_OPTIONS).reference for _, label in pairs] == expected
    for row, text in zip(written, expected, strict=True):
        if "####" not in text:  # which begins the answer of a solution
            question, reference = prepared("other", row)  # type: ignore[misc]
            assert (question, reference) == (row["input"].strip(), text.strip())
