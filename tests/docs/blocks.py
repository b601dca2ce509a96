"""Blocks of code that pages print, and how they are run: here, and with engines in
tests/end_to_end/test_documented_commands.py."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..reward_server.conftest import LiveServer

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent


def block(page: str, words: str) -> str:
    """The one block of a page that has these words."""
    blocks = re.findall(r"^```\w+\n(.*?)^```$", (ROOT / page).read_text(encoding="utf-8"), re.M | re.S)
    (found,) = [text for text in blocks if words in text]
    return found


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


@contextmanager
def beside_a_service(commands: str) -> Iterator[str]:
    """The commands without the line that starts a reward service: one runs on another port until the end."""
    lines = commands.splitlines()
    others = [line for line in lines if not line.startswith("math-reward serve")]
    assert len(others) == len(lines) - 1, "they start one service"
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


def run_block(text: str, folder: Path, timeout: float = 280, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a block as its reader would, with the project's commands on the PATH.

    Args:
        text: a program if it imports anything, else commands for a shell.
        folder: where; made by `scratch`.
        timeout: seconds.
        environment: variables besides those of this process.
    """
    command = ["bash", "-euo", "pipefail", "-c", text]
    if re.search(r"^(import|from) ", text, re.M):
        (folder / "example.py").write_text(text, encoding="utf-8")
        command = [str(BIN / "python"), "example.py"]
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
