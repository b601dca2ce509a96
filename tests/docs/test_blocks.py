"""Every block of code that a page prints, found by a walk over the pages: programs run, and commands take their words.
What needs GPUs, Docker or a download says so where a reader sees it."""

import argparse
import ast
import configparser
import contextlib
import importlib
import re
import shlex
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import math_reward.cli
from math_reward import nearest
from openrlhf_gtpo import cli, flags

from .blocks import ROOT, beside_a_service, run_block, scratch

PAGES = [*ROOT.glob("*.md"), ROOT / "reward_server" / "README.md", *(ROOT / "docs").rglob("*.md")]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
FOREIGN = re.compile("cd|source|[.]|curl|git|pip|ray|docker|uv|sha256sum|prometheus|openssl|printf|tee")
"""Programs that are not ours: their words are not read."""
NEEDS = {
    r"train_\w+\.sh|setup_gpu\.sh$|--gpus|verl\.trainer|trainers\.molt|2\.5-7B": r"needs [^.\n]*GPU|on (a|this) CPU",
    r"\bdocker\b": "(needs|with) Docker",
    r"prometheus ": "needs Prometheus",
    r"-0\.5B|--from [\w-]+/|MODEL=smollm2|git clone": "download",
}
"""What stands in a block -> what a reader has to be told near it."""
OURS = re.compile(
    r"(?:\w+=)?(?:\./)?((?:docs|launch|plugin|reward_server|tests)/[\w/.-]+|reward_server)(?:\[(\S+)\]|:(\w+))?"
)


class Block(NamedTuple):
    """What a page prints."""

    place: str
    language: str
    text: str
    near: str
    """All text from the heading above to the paragraph below."""


def printed(page: Path) -> Iterator[Block]:
    """The blocks of a page."""
    text = page.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        above, below = re.split("^## ", text[: found.end()], flags=re.M)[-1], text[found.end() :].strip()
        line = text[: found.start()].count("\n") + 1
        yield Block(f"{page.relative_to(ROOT)}:{line}", found[1], found[2], above + below.split("\n\n")[0])


BLOCKS = [block for page in PAGES for block in printed(page)]


def of_all(wanted: Callable[[Block], bool]) -> Any:
    """A test for each of the blocks that are wanted."""
    return pytest.mark.parametrize("block", list(filter(wanted, BLOCKS)), ids=lambda block: block.place)


class Parsed(Exception):
    """A command line was taken."""


@pytest.fixture
def parsing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands end where they have parsed their words."""

    def ending(parse: Callable[..., Any]) -> Callable[..., Any]:
        def parsed(*arguments: Any) -> Any:
            raise Parsed(parse(*arguments))

        return parsed

    for parser in (argparse.ArgumentParser, nearest.Parser):
        monkeypatch.setattr(parser, "parse_args", ending(parser.parse_args))


def commands(text: str) -> Iterator[list[str]]:
    """The words of each command of a block for a shell."""
    for line in text.replace("\\\n", " ").replace(" ...", " 1").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
        lexer.whitespace_split = True
        words: list[str] = []
        for token in [*lexer, ";"]:
            if set(token) <= set("();|&"):
                yield words
                words = []
            elif words[-1:] in (["<"], [">"]):
                words.pop()
            else:
                words.append(token)


def taken(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails unless the command is one that there is, with words that it takes."""
    for path, extras, name in (found.groups() for word in words if (found := OURS.match(word))):
        assert (ROOT / path).exists(), path
        assert not name or name in (ROOT / path).read_text("utf-8"), name
        for extra in extras.split(",") if extras else ():
            assert f"\n{extra} = [" in (ROOT / path / "pyproject.toml").read_text("utf-8"), extra
    variables = []
    while words and re.match(r"env$|export$|[A-Z_]+=", words[0]):
        name, _, value = words.pop(0).partition("=")
        variables += [name] if value else []
    match words:
        case ["openrlhf-gtpo" | "math-reward", "--help"]:
            pass
        case ["bash" | "python" | "python3", script, *rest] if script.endswith((".sh", ".py")):
            names = [] if "train_" in script else [word for word in rest if word.startswith("--")]
            read = "".join(path.read_text("utf-8") for path in (ROOT / script, *(ROOT / "launch").glob("*.sh")))
            assert all(re.search(rf"{name}\b", read) for name in variables + names), words
            if "train_" in script:
                flags.parse(rest)
        case ["python" | "python3", "-m", "openrlhf_gtpo.train", *rest]:
            flags.parse(rest)
        case ["python" | "python3", "-m", module, *_]:
            assert not module.startswith("openrlhf_gtpo") or find_spec(module)
        case ["openrlhf-gtpo", command, *rest] if command in cli.COMMANDS:
            importlib.import_module(cli.COMMANDS[command][0]).main(rest)
        case ["math-reward", *_]:
            monkeypatch.setattr("sys.argv", words)
            math_reward.cli.main()
        case ["ray", "job", "submit", *rest]:
            taken(rest[rest.index("--") + 1 :], monkeypatch)
        case [program, *_]:
            assert FOREIGN.fullmatch(program), f"say here how {program} is tested"


@pytest.mark.usefixtures("parsing")
@of_all(lambda block: block.language != "python")
def test_a_command_of_a_page_has_words_that_its_program_takes(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    text = block.text
    if block.language == "diff":
        text = re.sub(r"^(-.*\n|[+ ])", "", text, flags=re.M)
    elif block.language == "ini":
        unit = configparser.ConfigParser()
        unit.read_string(text)
        text = unit["Service"]["ExecStart"].rpartition("/")[2]
    else:
        assert block.language == "bash"
    for words in commands(text):
        with contextlib.suppress(Parsed):
            taken(words, monkeypatch)


def grades(block: Block) -> bool:
    """Whether a block asks the grader or a service, with what every machine has."""
    programs = {words[0] for words in commands(block.text) if words} if block.language == "bash" else set()
    return "grade" in block.text and "math-reward" in programs <= {"math-reward", "curl", "printf", "source", "tee"}


@of_all(grades)
def test_commands_that_grade_run_as_printed(block: Block, tmp_path: Path) -> None:
    text = block.text
    with beside_a_service(text if "math-reward serve" in text else f"math-reward serve\n{text}") as asked:
        done = run_block(asked, scratch(tmp_path))
    assert done.returncode == 0, done.stderr[-2000:]
    assert re.search(r"\bcorrect\b", done.stdout)
    assert "curl" not in text or '"reward":1.0,"correct":true' in done.stdout


@of_all(lambda block: block.language == "python")
def test_a_program_of_a_page_imports_what_there_is_and_prints_what_it_says(block: Block, tmp_path: Path) -> None:
    text = block.text
    imported = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom | ast.Import)]
    for node in imported:
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(("math_reward", "openrlhf_gtpo")):
            source = Path(str(getattr(find_spec(str(node.module)), "origin", None))).read_text(encoding="utf-8")
            assert all(re.search(rf"\b{alias.name}\b", source) for alias in node.names), node.module
    if imported and all(getattr(node, "module", "") in ("math_reward", "math_reward.client") for node in imported):
        with beside_a_service(f"math-reward serve\n{text}") as program:
            done = run_block(program, scratch(tmp_path))
        assert (done.stdout.splitlines(), done.stderr) == (re.findall(r"\bprint\(.*\)  # (.*)$", text, re.M), "")


@of_all(lambda _: True)
def test_a_block_that_needs_more_than_a_laptop_says_so_in_words(block: Block) -> None:
    for pattern, words in NEEDS.items():
        assert not re.search(pattern, block.text, re.M) or re.search(words, block.near, re.IGNORECASE), words
