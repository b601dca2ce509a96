"""The site: MkDocs builds it without a warning, it loads nothing from elsewhere, equations are drawn, pages fit."""

import functools
import http.server
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .blocks import BIN, ROOT

NAVIGATION = re.findall(r"^ +- .*: (\S+)\.md$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.M)


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
    assert "git clone https://example.org/owner/fork openrlhf-gtpo" in quickstart


def test_every_equation_of_the_pages_is_drawn(site: Path) -> None:
    written = (ROOT / "docs" / "algorithms.md").read_text().count("$$") // 2
    drawn = (site / "algorithms" / "index.html").read_text()
    assert written > 8
    assert drawn.count("<math ") == written
    assert "$$" not in drawn
    assert "arithmatex" not in drawn


OUTSIDE = """
const off = [], screen = document.documentElement.clientWidth;
if (document.documentElement.scrollWidth > screen) off.push("the page");
for (const box of document.querySelectorAll(".md-content :is(pre > code, .md-typeset__scrollwrap, .equation)"))
    if (box.scrollWidth > box.clientWidth + 1) off.push(box.textContent.trim().slice(0, 60));
return off;
"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("page", NAVIGATION)
def test_code_tables_and_equations_fit_the_screen(driver: Any, address: str, page: str, width: int) -> None:
    screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    driver.get(f"{address}/{'' if page == 'index' else page + '/'}")
    assert driver.execute_script(OUTSIDE) == []
