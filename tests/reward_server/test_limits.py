"""How many cores a container has."""

import os
from pathlib import Path

import pytest

from math_reward.limits import usable_cores


@pytest.mark.parametrize(
    ("files", "share"),
    [
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu.max": "100000 100000\n"}, 1),
        ({"cpu.max": "5000 100000\n"}, 1),
        ({"cpu.max": "150000 100000\n"}, 2),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "100000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 1),
        ({}, None),
    ],
)
def test_a_container_with_a_share_of_the_cores_has_no_more_workers(
    files: dict[str, str], share: int | None, tmp_path: Path
):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    mine = len(os.sched_getaffinity(0))

    assert usable_cores(tmp_path) == (mine if share is None else min(share, mine))
