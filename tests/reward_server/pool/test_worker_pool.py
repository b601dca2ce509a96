"""The worker pool for code without an event loop."""

from pathlib import Path
from types import ModuleType

import psutil
import pytest

from math_reward.pool.pool import PoolClosed
from math_reward.pool.worker_pool import Item, WorkerPool


def test_items_are_graded_and_no_process_is_left():
    with WorkerPool(workers=1, deadline=20) as pool:
        futures = [pool.submit(Item(rf"\boxed{{{i}}}", "3")) for i in range(6)]
        grades = [future.result(timeout=120).grade for future in futures]
        workers = pool.pids
        assert workers
        assert all(map(psutil.pid_exists, workers))

    assert [grade.correct for grade in grades] == [False, False, False, True, False, False]
    assert not any(map(psutil.pid_exists, workers))


def test_what_waits_when_the_pool_is_left_is_told(stub_graders: ModuleType, tmp_path: Path):
    with WorkerPool(workers=1, deadline=60, grader=stub_graders.obey) as pool:
        future = pool.submit(Item("hang without using the CPU", str(tmp_path / "calls")))

    with pytest.raises(PoolClosed):
        future.result(timeout=120)
