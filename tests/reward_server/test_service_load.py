"""``tests/benchmarks/service_load.py`` beside a live service; the nightly tier runs its attacks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly
TOP = Path(__file__).parents[2]


def test_posts_from_many_connections_are_all_answered():
    load = ["--posts", "40", "--connections", "8", "--items", "4"]
    result = subprocess.run(
        [sys.executable, "tests/benchmarks/service_load.py", *load],
        cwd=TOP,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(TOP / "plugin"), str(TOP / "reward_server")])},
        capture_output=True,
        text=True,
        timeout=200,
    )

    assert result.returncode == 0, result.stdout + result.stderr
