"""docs/studies/recompute.py: the figures of the pages follow from the records, and what is altered is found."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
TABLES = "studies/tables.txt"
ALTERED = [
    (TABLES, "**+0.0188 ± 0.0117**", "**+0.0189 ± 0.0117**"),
    (TABLES, "| p, Holm of 18 |", "| p, Holm of 17 |"),
    (TABLES, "| surprisal | 6 |", "| surprise | 6 |"),
    (TABLES, "| KL-Cov | 4 | 0.5007 ", "| KL-Cov | 4 | 0.5008 "),
    (TABLES, "| DAPO - GRPO | pass@16 at the end | 4 | +0.0000 ± 0.0000 | ceiling |  |  |  |  |\n", ""),
    ("studies/entropy2.md", "| mean@32 | -0.0258 ± 0.0732 |", "| mean@32 | -0.0258 ± 0.0731 |"),
    ("studies/entropy2.md", "| real - none (alpha2 = 0) | -0.0027 ", "| real - shuffled | -0.0027 "),
    ("tried.md", "**-0.107 ± 0.070**", "-0.107 ± 0.070"),
]
"""Page, what it says, and what it says in its place."""
FOUND = (
    "- dose, table 2, GTPO, alpha2 = 0.1 - GTPO, alpha2 = 0, pass rate in training, difference: "
    "**+0.0189 ± 0.0117** on the page, **+0.0188 ± 0.0117** computed\n",
    ", p, Holm of 17: 0.343 on the page, nothing computed\n",
    "- pivotal_1, table 1: no arm and no outcome has the name 'surprise'\n",
    "- entropy, table 1, KL-Cov, area under pass@1: 0.5008 ± 0.1011 on the page, 0.5007 ± 0.1011 computed\n",
    "- entropy: tables.txt has ",
    "- entropy2.md, GTPO, alpha2 = 0.1 - GTPO, alpha2 = 0, mean@32: "
    "-0.0258 ± 0.0731, 0.406, 0.1463 on the page, -0.0258 ± 0.0732, 0.406, 0.1463 computed\n",
    "- entropy2.md, real - shuffled: -0.0027 ± 0.0066, 0.346, 1.4e-05 on the page, no row computed\n",
    "- tried.md, leave_one_out ",
)
ROWS = {"dose": 3, "traps": 11, "pivotal": 7, "pivotal_1": 8, "guide": 10, "entropy": 7}
"""Of a study's tables on its page."""


def recompute(docs: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(docs / "studies" / "recompute.py")], capture_output=True, text=True)


def test_every_published_figure_follows_from_the_records() -> None:
    done = recompute(DOCS)
    assert done.stdout.splitlines()[-1] == "1421 figures, all agree", done.stdout + done.stderr
    assert done.returncode == 0
    assert {name: int(rows) for name, rows in re.findall(r"^(\w+): .* (\d+) rows in", done.stdout, re.M)} == ROWS


def test_a_figure_a_name_and_a_row_that_are_altered_on_a_page_are_named(tmp_path: Path) -> None:
    shutil.copytree(DOCS / "studies", tmp_path / "studies")
    shutil.copy(DOCS / "tried.md", tmp_path)
    for page, before, after in ALTERED:
        text = (tmp_path / page).read_text(encoding="utf-8")
        assert text.count(before) == 1, before
        (tmp_path / page).write_text(text.replace(before, after), encoding="utf-8")
    done = recompute(tmp_path)
    assert done.returncode == 1
    assert [sentence for sentence in FOUND if sentence not in done.stdout] == [], done.stdout + done.stderr
