"""The reader of JSON lines, which the plugin and the service share: what a line is, what a row and what an answer; and
that everything that reads a data set grades against the same text."""

import contextlib
import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from math_reward.http.requests import GradeItem
from math_reward.json_lines import NoAnswer, NoRow, NotUTF8, label_text, lines_of, object_of
from math_reward.pool.item import DEFAULT_OPTIONS
from openrlhf_gtpo.data.formats import UnknownFormat
from openrlhf_gtpo.data.formats import question_and_reference as prepared
from openrlhf_gtpo.data.sources import DataUnusable, is_lines
from openrlhf_gtpo.data.sources import lines as objects
from openrlhf_gtpo.data.table import rows

BOM = b"\xef\xbb\xbf"
TEXTS = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(
    ["42", "0.50", "007", "1e3", "2024-01-01", "true", "[1, 2]", "null", "a\u2028b", "a\u0085b", "a\fb", "caf\u00e9"]
)
NUMBERS = st.integers() | st.floats(-1e15, 1e15) | st.sampled_from([42, 42.0, 0.5])
VALUES = TEXTS | NUMBERS | st.none() | st.booleans() | st.lists(TEXTS, max_size=2)
LINES = st.one_of(
    st.builds(lambda prompt, label: {"input": prompt, "label": label}, TEXTS, VALUES).map(
        lambda row: json.dumps(row, ensure_ascii=False).encode()
    ),
    st.dictionaries(TEXTS, VALUES, max_size=3).map(lambda row: json.dumps(row, ensure_ascii=True).encode()),
    st.sampled_from(
        [
            *(b"", b" \t", b"oops", b"[1, 2]", b"{", b'{"a": 1} {"a": 2}', b'{"a": "\xe9"}', b"\xff", b"7" * 5000),
            *(b"[" * 100_000, b'{"a": ' * 100_000, b"\x0b", b"\x00", BOM, BOM + b'{"input": "q", "label": "1"}'),
        ]
    ),
)


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """Rows and what is none, with and without a byte order mark, with both line ends, the last one with or without."""
    lines = draw(st.lists(LINES, max_size=6))
    content = b"".join(line + draw(st.sampled_from([b"\n", b"\r\n"])) for line in lines)
    if draw(st.booleans()):
        content = content.removesuffix(b"\n").removesuffix(b"\r")
    return draw(st.sampled_from([b"", BOM])) + content


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


@given(content=files())
def test_a_line_of_any_file_is_found_again_by_its_place_and_is_an_object_or_one_sentence(
    path: Path, content: bytes
) -> None:
    path.write_bytes(content)
    with contextlib.suppress(NotUTF8):
        for line in lines_of(BytesIO(content)):
            assert content[line.offset :].startswith(line.content)
            assert content[: line.offset].count(b"\n") == line.number - 1
        assert all(isinstance(row, dict) or row.endswith(".") for row in rows_of(path))


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


def test_only_a_line_feed_ends_a_line(path: Path) -> None:
    texts = ["one\u2028line", "another\u0085one", "a form\ffeed", "carriage\rreturn"]
    path.write_text("".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts), "utf-8")
    assert rows_of(path) == [{"text": text} for text in texts]


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


@pytest.mark.parametrize("label", [True, ["42", "43"], {"style": "42"}])
def test_no_command_takes_what_is_no_answer(path: Path, label: Any) -> None:
    row = {"input": "6*7?", "label": label}
    path.write_text(json.dumps(row))
    with pytest.raises(DataUnusable, match=r"line 1: .*'label'"):
        list(rows(str(path), "input", "label"))
    with pytest.raises(UnknownFormat, match="reference"):
        prepared("other", row)
