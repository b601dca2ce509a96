"""A small part of the attacks of ``tests/benchmarks/attack_service.py``, on a live service."""

import os
import re
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).parents[2]
QUICK = {
    "16 MB of empty items": "HTTP 422",
    "16 MB of escapes": "HTTP 200",
    "16 MB of short prompts": "HTTP 422",
    "16 MB of one member again and again": "HTTP 200",
    "64 MB of header lines": "MiB taken",
    "doors without a token": "open: none",
}


def test_big_bodies_endless_heads_and_open_doors_do_not_swell_the_service():
    result = subprocess.run(
        [sys.executable, "tests/benchmarks/attack_service.py", "--only", *QUICK],
        cwd=TOP,
        env=os.environ | {"PYTHONPATH": str(TOP / "reward_server")},
        capture_output=True,
        text=True,
        timeout=200,
    )

    rows = [line.strip("| ").split(" | ") for line in result.stdout.splitlines()[2:]]
    assert [row[0] for row in rows] == list(QUICK), result.stderr
    for (_, found), expected in zip(rows, QUICK.values(), strict=True):
        assert expected in found
        # Memory alone: how long a health check takes depends on what else the machine does.
        growth = re.search(r"; (\d+) MiB, ", found)
        assert growth
        assert int(growth[1]) < 300
