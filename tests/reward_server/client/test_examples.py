"""The examples of the client in docs/reward-service.md, beside a real service."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "docs" / "examples"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ask_the_service.py", ["correct 1.0", "1"]),
        ("ask_from_a_loop.py", ["[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0]", "correct", "NotJudged"]),
    ],
)
def test_an_example_says_what_it_should(name: str, said: list[str], serve: Callable[..., Any], tmp_path: Path) -> None:
    program = (EXAMPLES / name).read_text().replace("localhost:8000", f"127.0.0.1:{serve('--workers', '1').port}")
    clean = {key: value for key, value in os.environ.items() if not key.startswith("MATH_REWARD_")}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=280, env=clean)
    assert done.stdout.splitlines() == said, done.stderr
