"""The warm-started policy that every end-to-end run begins with, which is kept under runs/ and made once."""

import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def policy() -> Path:
    """Folder with model/, train.jsonl and heldout.jsonl of the quickstart."""
    folder = ROOT / "runs" / "tests" / "warm_start"
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "lock"):  # tests run two at a time
        made = subprocess.run(
            [sys.executable, str(ROOT / "launch" / "laptop" / "warm_start.py"), "--out", str(folder), "--seed", "0"],
            capture_output=True,
            text=True,
        )
    assert made.returncode == 0, made.stderr[-3000:]
    return folder
