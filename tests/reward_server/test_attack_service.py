"""A small part of the attacks of ``tests/benchmarks/bench_service.py``, on a live service."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly
TOP = Path(__file__).parents[2]
QUICK = {
    "16 MB of empty items": "HTTP 413",
    "4 MB of labels": "HTTP 422",
    "4 MB of escapes": "HTTP 200",
    "64 MB of header lines": "MiB taken",
}


def test_big_bodies_and_endless_heads_do_not_swell_the_service():
    result = subprocess.run(
        [sys.executable, "tests/benchmarks/bench_service.py", "attack", "--only", *QUICK],
        cwd=TOP,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(TOP / "plugin"), str(TOP / "reward_server")])},
        capture_output=True,
        text=True,
        timeout=200,
    )

    rows = [line.strip("| ").split(" | ") for line in result.stdout.splitlines()[2:]]
    assert [row[0] for row in rows] == list(QUICK), result.stderr
    for (_, found, growth, *_), expected in zip(rows, QUICK.values(), strict=True):
        assert expected in found
        # Memory alone: how long a health check takes depends on what else the machine does.
        assert int(growth) < 300


def test_posts_from_many_connections_are_all_answered():
    load = ["load", "--posts", "40", "--connections", "8", "--items", "4"]
    result = subprocess.run(
        [sys.executable, "tests/benchmarks/bench_service.py", *load],
        cwd=TOP,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(TOP / "plugin"), str(TOP / "reward_server")])},
        capture_output=True,
        text=True,
        timeout=200,
    )

    assert result.returncode == 0, result.stdout + result.stderr
