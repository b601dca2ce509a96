"""The site: it builds, loads nothing from elsewhere, draws equations, and fits a laptop's and a phone's screen."""

import functools
import html
import http.server
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from urllib.parse import urljoin

import pytest
from mkdocs.exceptions import PluginError

from ..scripts import script
from .blocks import BIN, ROOT

NAVIGATION = re.findall(r"^ +- .*: (\S+)\.md$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.M)
PAGE = SimpleNamespace(file=SimpleNamespace(src_path="page.md"))


def hook(name: str) -> ModuleType:
    """A file of launch/site, loaded as MkDocs loads it."""
    return script(ROOT / "launch" / "site" / f"{name}.py")


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


def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text()
        assert re.findall(r"<(?:script|img|link)[^>]+(?:src|href)=\"(https?://[^\"]+)\"", text) == [], page.name
        assert 'data-md-component="source"' not in text, "the theme's script would ask GitHub"


def test_every_page_links_to_the_repository_that_a_variable_names(site: Path) -> None:
    assert 'href="https://example.org/owner/fork"' in (site / "algorithms" / "index.html").read_text()
    for page in ("quickstart", "training"):  # whose first command clones it
        text = re.sub("<[^>]+>", "", (site / page / "index.html").read_text())
        assert "git clone https://example.org/owner/fork openrlhf-gtpo" in text


def test_a_weakness_is_reported_to_the_owner_of_this_repository_or_fork(site: Path) -> None:
    reports = "https://example.org/owner/fork/security/advisories/new"
    link = f'<a href="{reports}">Report a weakness privately</a>'
    assert all(link in (site / page / "index.html").read_text() for page in ("", "reward-service"))
    (address,) = re.findall(r"\[report it privately\]\((\S+)\)", (ROOT / "SECURITY.md").read_text(encoding="utf-8"))
    assert urljoin("https://example.org/owner/fork/blob/main/SECURITY.md", address) == reports


def test_every_equation_of_the_pages_is_drawn(site: Path) -> None:
    written = (ROOT / "docs" / "algorithms.md").read_text().count("$$") // 2
    drawn = (site / "algorithms" / "index.html").read_text()
    assert written > 10
    assert drawn.count("<math ") == written
    assert "$$" not in drawn
    assert "arithmatex" not in drawn


def test_an_equation_that_cannot_be_drawn_stops_the_build_and_is_named() -> None:
    latex = r"\begin{aligned} a &= b _ \end{aligned}"
    with pytest.raises(PluginError, match=r"page\.md: the equation \\begin"):
        hook("equations").on_page_content(f'<div class="arithmatex">\\[{html.escape(latex)}\\]</div>', page=PAGE)


def test_a_wide_tables_cells_name_their_columns() -> None:
    row = "<tr><td>1</td><td>2</td><td></td></tr>"
    wide = f"<table><thead><tr><th>a</th><th><code>b</code> &lt;</th><th>c</th></tr></thead>{row}</table>"
    (found,) = re.findall(r"<tr>(<td.*?)</tr>", hook("tables").on_page_content(wide))
    assert found == '<td data-head="a">1</td><td data-head="b &lt;">2</td><td data-head="c"></td>'
    narrow = "<table><thead><tr><th>a</th></tr></thead><tr><td>1</td></tr></table>"
    assert hook("tables").on_page_content(narrow) == narrow


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
