"""What the first pages print can be run, and links of files outside the site lead somewhere."""

import re
import shlex
from pathlib import Path

import pytest

from openrlhf_gtpo.flags import parse

from .blocks import ROOT, beside_a_service, block, run_block, scratch

OUTSIDE = [*ROOT.glob("*.md"), ROOT / "reward_server" / "README.md", *(ROOT / "tests").rglob("README.md")]
OF_THE_HOST = "../../security/"
"""Begins a link to a page that the repository's host has beside the files."""


def test_the_first_grade_is_as_printed(tmp_path: Path) -> None:
    text = block("reward_server/README.md", "from math_reward import grade")
    done = run_block(text, scratch(tmp_path))
    assert (done.stdout, done.stderr) == (text.rpartition("# ")[2], "")


def test_the_reward_service_is_asked_as_printed(tmp_path: Path) -> None:
    with beside_a_service(block("README.md", "math-reward serve")) as text:
        done = run_block(text, scratch(tmp_path))
    assert done.returncode == 0, done.stderr[-2000:]
    assert '"reward":1.0,"correct":true' in done.stdout


def test_the_quickstarts_training_command_has_flags_that_there_are() -> None:
    """A nightly test runs it (tests/end_to_end/test_documented_commands.py)."""
    commands = block("docs/quickstart.md", "python -m openrlhf_gtpo.train").replace("\\\n", "")
    args = parse(shlex.split(commands.partition("python -m openrlhf_gtpo.train ")[2]))
    assert vars(args)["algo.advantage.estimator"] == "gtpo"
    assert vars(args)["train.max_steps"] == 3


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
