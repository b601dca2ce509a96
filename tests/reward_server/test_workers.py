"""The worker processes: hard deadlines, crashes, replacement and clean ends, with real processes and real signals."""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import psutil
import pytest

from math_reward.grader import Verdict
from math_reward.workers import GRACE_SECONDS, Graded, Item, WorkerPool


def wait_for(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < limit, "waited 30 s in vain"
        time.sleep(0.01)


def verdicts(results: list[Graded]) -> list[Verdict]:
    return [result.grade.verdict for result in results]


async def test_a_hanging_item_is_a_timeout_and_the_others_are_answered_in_order(
    stub_graders: ModuleType, tmp_path: Path
):
    calls = str(tmp_path / "calls")
    commands = ["ok", "hang in C code", "ok", "hang in C code", "ok", "ok"]

    with WorkerPool(2, deadline=0.5, grader=stub_graders.obey) as pool:
        results = await pool.grade(Item(command, calls) for command in commands)

        ok, late = Verdict.CORRECT, Verdict.TIMEOUT
        assert verdicts(results) == [ok, late, ok, late, ok, ok]
        assert results[1].grade.detail == "Grading did not end within 0.5 s."
        assert 0.5 <= results[1].seconds < 0.5 + 2 * GRACE_SECONDS
        # A hanging item is not tried again: one call per command.
        assert len(Path(calls).read_text().splitlines()) == len(commands)


async def test_time_in_the_queue_does_not_count_for_the_deadline(stub_graders: ModuleType, tmp_path: Path):
    calls = str(tmp_path / "calls")

    with WorkerPool(1, deadline=0.5, grader=stub_graders.obey) as pool:
        results = await pool.grade(Item(command, calls) for command in ["hang in C code", "hang in C code", "ok"])

    assert verdicts(results) == [Verdict.TIMEOUT, Verdict.TIMEOUT, Verdict.CORRECT]


async def test_a_worker_that_its_alarm_does_not_end_is_killed_by_the_pool(
    stub_graders: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("math_reward.workers.GRACE_SECONDS", 0.5)

    with WorkerPool(1, deadline=0.3, grader=stub_graders.obey) as pool:
        (alive,) = await pool.grade([Item("ok", str(tmp_path / "calls"))])
        results = await pool.grade([Item("hang and ignore the alarm", str(tmp_path / "calls"))])

        assert verdicts(results) == [Verdict.TIMEOUT]
        assert not psutil.pid_exists(int(alive.grade.answer or 0))


async def test_an_item_that_crashes_its_worker_is_tried_twice_and_is_then_an_error(
    stub_graders: ModuleType, tmp_path: Path
):
    calls, others = tmp_path / "calls", tmp_path / "others"

    with WorkerPool(2, deadline=20, grader=stub_graders.obey) as pool:
        results = await pool.grade(
            [Item("ok", str(others)), Item("exit", str(calls)), *[Item("ok", str(others)) for _ in range(20)]]
        )

    assert verdicts(results) == [Verdict.CORRECT, Verdict.ERROR, *[Verdict.CORRECT] * 20]
    assert results[1].grade.detail == "Grading failed 2 times: its worker died (exit code 7)."
    assert len(set(calls.read_text().splitlines())) == 2  # Two calls, in two processes.


async def test_an_item_whose_worker_is_killed_is_graded_by_the_next_one(stub_graders: ModuleType, tmp_path: Path):
    calls = tmp_path / "calls"

    with WorkerPool(1, deadline=60, grader=stub_graders.obey) as pool:
        grading = asyncio.ensure_future(pool.grade([Item("wait for the file 'go'", str(calls))]))
        await asyncio.to_thread(wait_for, lambda: calls.exists() and calls.read_text().endswith("\n"))
        first = int(calls.read_text())
        os.kill(first, signal.SIGKILL)
        (tmp_path / "go").touch()
        (result,) = await grading

    assert result.grade.verdict is Verdict.CORRECT
    assert result.grade.answer not in (None, str(first))


async def test_workers_that_were_killed_while_idle_are_replaced(stub_graders: ModuleType, tmp_path: Path):
    with WorkerPool(2, deadline=20, grader=stub_graders.obey) as pool:
        await asyncio.to_thread(wait_for, lambda: len(pool.pids) == 2)
        killed = pool.pids
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        results = await pool.grade(Item("ok", str(tmp_path / "calls")) for _ in range(10))

    assert verdicts(results) == [Verdict.CORRECT] * 10
    assert not {int(result.grade.answer or 0) for result in results} & set(killed)


async def test_an_urgent_item_overtakes_the_queue(stub_graders: ModuleType, tmp_path: Path):
    order = tmp_path / "calls"
    with WorkerPool(1, deadline=60, grader=stub_graders.obey) as pool:
        busy = pool.submit(Item("wait for the file 'go'", str(order)))
        await asyncio.to_thread(wait_for, busy.running)
        later = pool.submit(Item("hang in C code", str(order)))
        urgent = pool.submit(Item("ok", str(order)), first=True)
        (tmp_path / "go").touch()

        assert (await asyncio.wrap_future(urgent)).grade.verdict is Verdict.CORRECT
        assert not later.done()


async def test_leaving_the_pool_ends_every_process_and_cancels_what_waits(stub_graders: ModuleType, tmp_path: Path):
    with WorkerPool(2, deadline=60, grader=stub_graders.obey) as pool:
        running = [pool.submit(Item("hang in C code", str(tmp_path / "calls"))) for _ in range(2)]
        await asyncio.to_thread(wait_for, lambda: all(future.running() for future in running))
        waiting = pool.submit(Item("ok", str(tmp_path / "calls")))
        pids = pool.pids

    assert len(pids) == 2
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert waiting.cancelled()
    assert [future.result(timeout=1).grade.verdict for future in running] == [Verdict.ERROR] * 2


async def test_math_verify_itself_is_stopped_at_the_deadline():
    with WorkerPool(1, deadline=1) as pool:
        results = await pool.grade([Item(r"\boxed{9^{9^{9^{9}}}}", r"\sqrt{2}"), Item(r"\boxed{\frac{4}{2}}", "2")])

    assert verdicts(results) == [Verdict.TIMEOUT, Verdict.CORRECT]
