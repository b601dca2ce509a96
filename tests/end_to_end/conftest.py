"""The warm-started policy that every end-to-end run begins with, which is kept under runs/ and made once."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

ROOT = Path(__file__).parents[2]
# A shell starts what it puts into the background with Ctrl-C ignored, and every run of the suite would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


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
