"""docs/studies/recompute.py: the figures of the pages follow from the records."""

import re
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
ROWS = {"dose": 2, "traps": 4, "pivotal": 2, "pivotal_1": 6, "guide": 7, "entropy": 7}
"""Of a study's tables on its page."""


def recompute(docs: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(docs / "studies" / "recompute.py")], capture_output=True, text=True)


def test_every_published_figure_follows_from_the_records() -> None:
    done = recompute(DOCS)
    assert done.stdout.splitlines()[-1] == "1421 figures, all agree", done.stdout + done.stderr
    assert done.returncode == 0
    assert {name: int(rows) for name, rows in re.findall(r"^(\w+): .* (\d+) rows in", done.stdout, re.M)} == ROWS
