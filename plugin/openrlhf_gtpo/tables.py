"""Tables as text: for a terminal, and for a page in Markdown."""

from collections.abc import Iterable, Sequence


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell, two spaces between them, a line a row.

    Args:
        rows: of as many cells each.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def markdown(head: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown, without a line end behind it.

    Args:
        head: names of the columns.
        rows: of as many cells each, in Markdown; a ``|`` in a cell is escaped, so that it ends no cell.
    """
    lines = [_line(head), "|" + "---|" * len(head), *map(_line, rows)]
    return "\n".join(lines)


def _line(cells: Sequence[object]) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"
