"""The blocks of code in README and docs, and what a comment above each says about how it is tested.

<!-- run -->                        as printed, in a copy of the repository's folder
<!-- run: COMMAND -->               this command instead, which does the same where the block needs more
<!-- run with the service -->       beside a reward service, whose port takes the place of 8000
<!-- run in the loop -->            with engines, after a quickstart (also with `: COMMAND`); beside a service where it
                                    starts one
<!-- run as a cluster -->           with a Ray cluster of its own in the place of the first line's
<!-- is FILE -->                    the block is that file, which another test runs
<!-- tested by FILE: WORDS -->      that test runs it: the file names the words
<!-- needs WHAT -->                 cannot be run here; its commands, files and flags exist
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..reward_server.conftest import LiveServer

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        ROOT / "reward_server" / "README.md",
        ROOT / "tests" / "benchmarks" / "README.md",
    ]
)
TESTED = ("bash", "python")
WAYS = ("run with the service", "run in the loop", "run as a cluster", "run", "is", "tested by", "needs")

_BLOCK = re.compile(r"(?:^<!-- (?P<tag>[^\n]+?) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S)


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    text: str
    tag: str

    @property
    def way(self) -> str:
        """How it is tested: one of WAYS, or nothing."""
        return next((way for way in WAYS if re.match(rf"{way}\b", self.tag)), "")

    @property
    def argument(self) -> str:
        """What the tag says after its way."""
        return self.tag[len(self.way) :].lstrip(": ")

    @property
    def commands(self) -> str:
        """What is run: the block, or what the tag has in its place."""
        return self.argument if self.way.startswith("run") and self.argument else self.text

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(*ways: str) -> list[Block]:
    """Those that are tested in one of these ways, the same text once; without any, all blocks."""
    found: dict[tuple[str, str], Block] = {}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in _BLOCK.finditer(text):
            line = text.count("\n", 0, match.start("language")) + 1
            block = Block(str(page.relative_to(ROOT)), line, match["language"], match["text"], match["tag"] or "")
            if not ways:
                found[str(block), ""] = block
            elif block.language in TESTED and block.way in ways:
                found.setdefault((block.text, block.tag), block)
    return list(found.values())


def scratch(folder: Path, policy: Path | None = None) -> Path:
    """A folder that looks like the repository's, whose runs/ is its own.

    Args:
        folder: where to make it.
        policy: what the quickstart's warm start has made, if that is there already.
    """
    for path in ROOT.iterdir():
        if path.name not in ("runs", ".git"):
            (folder / path.name).symlink_to(path)
    (folder / "runs").mkdir()
    if policy is not None:
        (folder / "runs" / "quickstart").mkdir()
        (folder / "runs" / "quickstart" / "warm_start").symlink_to(policy)
    return folder


STARTS_SERVICE = "math-reward serve"


@contextmanager
def beside_a_service(block: Block) -> Iterator[str]:
    """The block's commands without the line that starts a reward service: one runs on another port until the end."""
    lines = block.commands.splitlines()
    others = [line for line in lines if not line.startswith(STARTS_SERVICE)]
    assert len(others) == len(lines) - 1, f"{block} starts one service"
    server = LiveServer("--workers", "1").when_ready()
    try:
        yield "\n".join(others).replace("localhost:8000", f"127.0.0.1:{server.port}")
    finally:
        server.stop()


# What tests/conftest.py sets for its own process and a user's shell does not have.
OF_THE_TESTS = (
    "HF_HUB_OFFLINE",
    "PYTHONPATH",
    "RAY_ADDRESS",
    "VLLM_CPU_KVCACHE_SPACE",
    "VLLM_ENABLE_V1_MULTIPROCESSING",
)


def run_block(
    block: Block, folder: Path, text: str | None = None, timeout: float = 280, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a block as its reader would, with the project's commands on the PATH.

    Args:
        block: its commands are run, or its Python.
        folder: where; made by `scratch`.
        text: shell commands to run in its place.
        timeout: seconds.
        environment: variables besides those of this process.
    """
    commands = text or block.commands
    if block.language == "python" and commands == block.text:
        (folder / "example.py").write_text(commands, encoding="utf-8")
        command = [str(BIN / "python"), "example.py"]
    else:
        command = ["bash", "-euo", "pipefail", "-c", commands]
    shell = {name: value for name, value in os.environ.items() if name not in OF_THE_TESTS}
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command,
        cwd=folder,
        env={**shell, "PATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
