"""The site: MkDocs builds it without a warning, it loads nothing from elsewhere, equations are drawn."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from .blocks import BIN, ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [str(BIN / "mkdocs"), "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "REPOSITORY_URL": "https://example.org/owner/fork"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def test_the_site_loads_nothing_from_elsewhere_and_names_the_repository_that_a_variable_names(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text()
        assert re.findall(r"<(?:script|img|link)[^>]+(?:src|href)=\"(https?://[^\"]+)\"", text) == [], page.name
        assert 'data-md-component="source"' not in text, "the theme's script would ask GitHub"
    quickstart = re.sub("<[^>]+>", "", (site / "quickstart" / "index.html").read_text())
    assert "git clone https://example.org/owner/fork" in quickstart


def test_every_equation_of_the_pages_is_drawn(site: Path) -> None:
    text = (ROOT / "docs" / "algorithms.md").read_text()
    drawn = (site / "algorithms" / "index.html").read_text()
    assert text.count("$$") >= 16
    assert drawn.count("<math ") == len(re.findall(r"\$\$.*?\$\$|\$[^$]+\$", text)) > 40
    assert "arithmatex" not in drawn
    assert not re.search(r"<su[bp]>|[αβμσ]\d?\b", text), "a symbol in the text has the face of the equations"
