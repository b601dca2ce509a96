"""Reads docs/metrics.md, the table of every name that a run logs."""

import functools
import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "metrics.md"
OPEN = {
    "source": r".+", "k": r"\d+", "verdict": r".+", "class": "(correct_|wrong_)?", "stat": "(mean|std|min|max)",
    "quantile": "(mean|q10|q50|q90)", "gae": "(critic_loss|values|critic_lr|critic_grad_norm)",
}  # fmt: skip
"""Placeholders in names, as patterns."""


@functools.cache
def names() -> list[str]:
    """The names of the table, in its order."""
    return re.findall(r"^\| `(.+?)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def is_described(name: str) -> bool:
    """Whether a logged name has a row."""
    patterns = (re.sub(r"\\\{(\w+)\\\}", lambda match: OPEN[match[1]], re.escape(row)) for row in names())
    return any(re.fullmatch(pattern, name) for pattern in patterns)
