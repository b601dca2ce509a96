"""What the first pages print can be run, and links of files outside the site lead somewhere."""

import re
from pathlib import Path

import pytest

from openrlhf_gtpo.engine.versions import NEWEST, OPENRLHFS

from .blocks import ROOT

OUTSIDE = [*ROOT.glob("*.md"), ROOT / "reward_server" / "README.md", *(ROOT / "tests").rglob("README.md")]
OF_THE_HOST = "../../security/"
"""Begins a link to a page that the repository's host has beside the files."""


def test_an_example_that_a_page_prints_is_the_file_that_is_tested() -> None:
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))
    for example in (ROOT / "docs" / "examples").glob("*.py"):
        text = example.read_text(encoding="utf-8")
        if text.splitlines()[0] in pages:
            assert text in pages, f"a page prints another {example.name}"


def anchors(page: Path) -> set[str]:
    """Of a page's headings, as GitHub and MkDocs make them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", OUTSIDE, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_files_that_are_no_part_of_the_site_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if not target.startswith(("http://", "https://", OF_THE_HOST)):
            path, _, anchor = target.partition("#")
            file = page.parent / path if path else page
            assert file.exists(), target
            assert not anchor or anchor in anchors(file), target


def test_the_versions_of_vllm_that_messages_name_are_those_that_were_measured() -> None:
    measured = re.findall(r"^\| (\d+\.\d+)\.\d+ \|", (ROOT / "docs" / "vllm_versions.md").read_text(), re.M)
    assert measured == [OPENRLHFS, NEWEST]
    assert f"{OPENRLHFS} or {NEWEST}" in (ROOT / "docs" / "entropies.md").read_text()
