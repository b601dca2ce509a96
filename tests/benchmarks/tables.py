"""A table in Markdown, as the benchmarks print theirs."""

from collections.abc import Iterable, Sequence


def markdown(head: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """Without a line end behind it."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
