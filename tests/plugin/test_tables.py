"""Tables for terminals and pages."""

from hypothesis import given
from hypothesis import strategies as st

from openrlhf_gtpo.tables import aligned, markdown

CELLS = st.text(st.characters(codec="ascii", exclude_categories=["C"]), max_size=8)
ROWS = st.integers(1, 4).flatmap(lambda n: st.lists(st.lists(CELLS, min_size=n, max_size=n), min_size=1, max_size=5))


def test_columns_are_as_wide_as_their_widest_cell_and_lines_end_without_spaces() -> None:
    rows = [["", "a", "bb"], ["pass@1", "0.5", "1"], ["n", "", ""]]
    assert aligned(rows).split("\n") == ["        a    bb", "pass@1  0.5  1", "n"]


@given(rows=ROWS)
def test_every_cell_begins_at_its_columns_place(rows: list[list[str]]) -> None:
    lines = aligned(rows).split("\n")
    assert len(lines) == len(rows)
    begin = 0
    for column in zip(*rows, strict=True):
        for line, cell in zip(lines, column, strict=True):
            assert line[begin : begin + len(cell)].rstrip() == cell.rstrip()
        begin += max(map(len, column)) + 2


def test_a_table_in_markdown_has_a_head_a_rule_and_its_rows() -> None:
    assert markdown(["name", "n"], [["`a|b`", 1], ["", 2.5]]) == "| name | n |\n|---|---|\n| `a\\|b` | 1 |\n|  | 2.5 |"
