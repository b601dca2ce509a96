"""README and docs: every block of code is tested in some way, and links lead somewhere."""

import re
import subprocess
from pathlib import Path

import pytest

from .blocks import PAGES, ROOT, TESTED, Block, beside_a_service, blocks, run_block, scratch

README_LINES, README_WIDTH = 150, 120
OF_THE_HOST = "../../security/"
"""Begins a link to a page that the repository's host has beside the files: tests/docs/test_site.py follows it."""


@pytest.mark.parametrize("block", [block for block in blocks() if block.language in TESTED], ids=str)
def test_every_block_of_code_says_how_it_is_tested(block: Block) -> None:
    assert block.way, f"{block} has no comment that says how it is tested; tests/docs/blocks.py lists the ways"


@pytest.mark.parametrize("block", blocks("is"), ids=str)
def test_a_block_that_is_a_file_is_that_file(block: Block) -> None:
    assert block.text == (ROOT / block.argument).read_text(encoding="utf-8")


@pytest.mark.parametrize("block", blocks("tested by"), ids=str)
def test_a_block_that_another_test_runs_is_named_there(block: Block) -> None:
    file, _, words = block.argument.partition(": ")
    assert words in block.text
    said = (ROOT / file).read_text(encoding="utf-8")
    assert all(part in said for part in Path(words).parts[-1:]), f"{file} says nothing of {words}"


@pytest.mark.parametrize("block", [block for block in blocks() if block.language == "bash"], ids=str)
def test_commands_can_be_read_by_the_shell_and_their_scripts_exist(block: Block) -> None:
    done = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for script in re.findall(r"\b(?:launch|docs|tests|plugin)/[\w./]+\.(?:sh|py|yaml)", block.text):
        assert (ROOT / script).exists(), f"{block} names {script}"


@pytest.mark.parametrize("block", blocks("run"), ids=str)
def test_what_is_printed_can_be_run(block: Block, tmp_path: Path) -> None:
    done = run_block(block, scratch(tmp_path))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    said = [line.split("# ", 1)[1] for line in block.commands.splitlines() if re.match(r"print\(.*\)  # ", line)]
    assert done.stdout.split() == said if said else done.stdout


@pytest.mark.parametrize("block", blocks("run with the service"), ids=str)
def test_what_is_printed_can_be_run_beside_the_service(block: Block, tmp_path: Path) -> None:
    with beside_a_service(block) as text:
        done = run_block(block, scratch(tmp_path), text)
    assert done.returncode == 0, done.stderr[-2000:]
    assert '"reward": 1.0, "correct": true' in done.stdout
    for said in re.findall(r"^# (\{.*)$", block.text, re.M):
        assert said in done.stdout


def test_the_readme_is_short() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= README_LINES
    assert [line for line in lines if len(line) > README_WIDTH] == []


def anchors(page: Path) -> set[str]:
    """Of a page's headings, as GitHub and MkDocs make them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http://", "https://", OF_THE_HOST)):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    assert broken == []


def test_files_that_the_docs_name_exist() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    missing = {}
    for page in PAGES:
        if page.name == "CHANGELOG.md":  # tells of files that were
            continue
        text = page.read_text(encoding="utf-8")
        for name in re.findall(r"`(?!-)((?:[\w-]+/)*[\w-]+\.(?:py|sh|yaml|flags))\b", text):
            if name.startswith("openrlhf/") or Path(name).stem.isupper():
                continue  # OpenRLHF's own file, or a name that stands for one
            if not any(path == name or path.endswith(f"/{name}") for path in tracked):
                missing.setdefault(page.name, set()).add(name)
    assert missing == {}
