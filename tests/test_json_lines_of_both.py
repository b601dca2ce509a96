"""The plugin and the service each have a reader of JSON lines, since neither imports the other: the same files are fed
to both, and to everything that reads a data set."""

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import math_reward.json_lines as theirs
import openrlhf_gtpo.data.json_lines as ours
from math_reward.http.requests import GradeItem
from math_reward.pool.item import DEFAULT_OPTIONS
from openrlhf_gtpo.data import as_written
from openrlhf_gtpo.data.formats import UnknownFormat
from openrlhf_gtpo.data.formats import question_and_reference as prepared
from openrlhf_gtpo.data.survey import read_rows, survey
from openrlhf_gtpo.errors import SettingsError
from openrlhf_gtpo.evaluation.benchmark import load

BOM = b"\xef\xbb\xbf"
TEXTS = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(
    ["42", "0.50", "007", "1e3", "2024-01-01", "true", "[1, 2]", "null", "a\u2028b", "a\u0085b", "a\fb", "caf\u00e9"]
)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([42, 42.0, 0.5, 1e300])
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


def read_by(module: Any, numbered: Any) -> dict[int, dict[str, Any] | None]:
    """Each line that is not blank: its object, or None where it has none."""
    found: dict[int, dict[str, Any] | None] = {}
    for number, content in numbered:
        found[number] = None
        with contextlib.suppress(module.NoRow):
            found[number] = module.object_of(content)
    return found


def by_both(path: Path) -> tuple[Any, Any]:
    """What each reader finds in a file: its rows, or the sentence for which it is refused."""
    try:
        mine = read_by(ours, ((line.number, line.content) for line in ours.lines_of(path)))
    except ours.Unreadable as error:
        mine = str(error)
    try:
        other = read_by(theirs, theirs.lines_of(io.BytesIO(path.read_bytes())))
    except theirs.NotUTF8 as error:
        other = str(error)
    return mine, other


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rows") / "rows.jsonl"


@given(content=files())
def test_both_readers_find_the_same_rows_in_every_file(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    mine, other = by_both(path)
    assert repr(mine) == repr(other)


@given(
    rows=st.lists(st.tuples(TEXTS, TEXTS | NUMBERS), min_size=1, max_size=5),
    end=st.sampled_from(["\n", "\r\n"]),
    bom=st.booleans(),
)
def test_a_byte_order_mark_and_windows_line_ends_change_nothing(
    path: Path, rows: list[tuple[str, Any]], end: str, bom: bool
) -> None:
    written = [{"input": prompt, "label": label} for prompt, label in rows]
    path.write_bytes(b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in written))
    plain = by_both(path)
    assert list(plain[0].values()) == written
    lines = [json.dumps(row, ensure_ascii=False) for row in written]
    path.write_bytes((BOM if bom else b"") + "".join(line + end for line in lines).encode())
    assert by_both(path) == plain


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"])
def test_another_unicode_is_one_sentence_of_both(path: Path, encoding: str) -> None:
    path.write_bytes('{"input": "6*7?", "label": "42"}\n'.encode(encoding))
    mine, other = by_both(path)
    assert mine == other == f"it is {encoding[:6].upper()} and has to be UTF-8: save it as that"


@given(label=VALUES | st.dictionaries(TEXTS, TEXTS, max_size=1))
def test_both_make_the_same_text_of_a_reference_answer(label: Any) -> None:
    def of(module: Any) -> tuple[str, str]:
        try:
            return "text", module.label_text(label)
        except module.NoAnswer as kind:
            return "none", str(kind)

    assert of(ours) == of(theirs)


@pytest.mark.parametrize(
    ("label", "text"),
    [("42", "42"), (42, "42"), (42.0, "42"), (0.5, "0.5"), (-3.0, "-3"), (1e300, "1e+300"), ("0.50", "0.50")],
)
def test_a_number_is_the_text_that_people_write(label: Any, text: str) -> None:
    assert ours.label_text(label) == theirs.label_text(label) == text


@pytest.mark.parametrize("label", [None, True, False, [], ["1"], {}, float("nan"), float("inf")])
def test_what_is_no_answer_is_refused_by_both(label: Any) -> None:
    with pytest.raises(ours.NoAnswer):
        ours.label_text(label)
    with pytest.raises(theirs.NoAnswer):
        theirs.label_text(label)


def usable(text: Any) -> bool:
    return bool(str(text).strip())


@given(rows=st.lists(st.tuples(TEXTS.filter(usable), (TEXTS | NUMBERS).filter(usable)), min_size=1, max_size=5))
def test_every_command_and_training_grade_against_the_same_text(path: Path, rows: list[tuple[str, Any]]) -> None:
    """Prepare, the doctor, evaluations, `math-reward grade`, the service and OpenRLHF's loader in training."""
    written = [{"input": prompt, "label": label} for prompt, label in rows]
    path.write_bytes(BOM + "\r\n".join(json.dumps(row) for row in written).encode())
    expected = [ours.label_text(label) for _, label in rows]
    found = survey(path, "input", "label")
    assert (found.bad_rows, found.bad_labels) == ({}, {})
    assert [row.label for row in read_rows(path, found, 10, "input", "label")] == expected
    assert [prompt.reference for prompt in load(path, "input", "label").prompts] == expected
    assert [GradeItem("", label).item(DEFAULT_OPTIONS).reference for _, label in rows] == expected
    data = as_written.table(path, "input", "label", "images")["train"]
    assert (data["label"][:], data["input"][:]) == (expected, [prompt for prompt, _ in rows])
    for row, text in zip(written, expected, strict=True):
        if "####" not in text:  # which begins the answer of a solution
            question, reference = prepared("other", row)  # type: ignore[misc]
            assert (question, reference) == (row["input"].strip(), text.strip())


@pytest.mark.parametrize("label", [True, ["42"], {"answer": "42"}])
def test_no_command_takes_what_is_no_answer(path: Path, label: Any) -> None:
    row = {"input": "6*7?", "label": label}
    path.write_text(json.dumps(row))
    assert sum(map(len, survey(path, "input", "label").bad_labels.values())) == 1
    with pytest.raises(SettingsError, match="line 1: 'label' is "):
        load(path, "input", "label")
    with pytest.raises(UnknownFormat, match="its reference answer is "):
        prepared("other", row)
    with pytest.raises(as_written.DataUnusable, match="line 1: its 'label' is "):
        as_written.table(path, "input", "label", None)
