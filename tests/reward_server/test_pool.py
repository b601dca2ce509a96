"""The worker processes: hard deadlines, crashes, replacement and clean ends, with real processes and real signals."""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import psutil
import pytest

from math_reward.grader import Mode, Options, Verdict
from math_reward.item import Graded, Item
from math_reward.pool import Pool, PoolClosed, QueueFull

WaitFor = Callable[[Callable[[], bool]], None]


def verdicts(results: list[Graded]) -> list[Verdict]:
    return [result.grade.verdict for result in results]


def calls_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


async def until(wait_for: WaitFor, condition: Callable[[], bool]) -> None:
    await asyncio.to_thread(wait_for, condition)


async def test_a_hanging_item_is_a_timeout_and_the_others_are_answered_in_order(
    stub_graders: ModuleType, tmp_path: Path
):
    calls = str(tmp_path / "calls")
    commands = ["ok", "hang in C code", "ok", "hang in C code", "ok", "ok"]

    async with Pool(2, deadline=0.5, grader=stub_graders.obey) as pool:
        results = await pool.grade(Item(command, calls) for command in commands)

    ok, late = Verdict.CORRECT, Verdict.TIMEOUT
    assert verdicts(results) == [ok, late, ok, late, ok, ok]
    assert results[1].grade.detail == "Grading did not end within 0.5 s."
    assert all(results[i].seconds >= 0.45 for i in (1, 3))
    assert pool.counters.deadline_kills == pool.counters.restarts["deadline"] == 2


async def test_time_in_the_queue_does_not_count_for_the_deadline(stub_graders: ModuleType, tmp_path: Path):
    calls, others = str(tmp_path / "calls"), str(tmp_path / "others")

    async with Pool(1, deadline=0.5, grader=stub_graders.obey) as pool:
        results = await pool.grade([Item("hang in C code", calls), Item("hang in C code", others), Item("ok", calls)])

    assert verdicts(results) == [Verdict.TIMEOUT, Verdict.TIMEOUT, Verdict.CORRECT]


@pytest.mark.parametrize("command", ["hang without using the CPU", "hang and ignore the alarm"])
async def test_an_item_that_cannot_be_interrupted_ends_with_its_deadline_all_the_same(
    stub_graders: ModuleType, tmp_path: Path, command: str
):
    async with Pool(1, deadline=0.3, grader=stub_graders.obey) as pool:
        (alive,) = await pool.grade([Item("ok", str(tmp_path / "calls"))])
        results = await pool.grade([Item(command, str(tmp_path / "calls"))])

        assert verdicts(results) == [Verdict.TIMEOUT]
        assert results[0].seconds >= 0.25
        assert pool.counters.deadline_kills == 1
        assert not psutil.pid_exists(int(alive.grade.answer or 0))


async def test_what_a_chunk_has_before_and_behind_a_hanging_item_is_graded_once(
    stub_graders: ModuleType, tmp_path: Path
):
    others, hanging = tmp_path / "others", tmp_path / "hanging"
    items = [Item("ok", str(others)) for _ in range(30)]
    items[10] = Item("hang in C code", str(hanging))

    async with Pool(1, deadline=2, grader=stub_graders.obey) as pool:
        await pool.grade([Item("ok", str(tmp_path / "warm"))])
        results = await pool.grade(items)

    assert verdicts(results) == [Verdict.TIMEOUT if i == 10 else Verdict.CORRECT for i in range(30)]
    assert len(calls_of(others)) == 29
    assert len(calls_of(hanging)) == 2  # Once with a head start, once with the whole deadline.


async def test_an_item_that_takes_long_is_graded_and_does_not_hold_up_those_behind_it(
    stub_graders: ModuleType, tmp_path: Path
):
    calls = str(tmp_path / "calls")

    async with Pool(1, deadline=20, grader=stub_graders.obey) as pool:
        long = asyncio.ensure_future(pool.grade([Item("take long", calls)]))
        await asyncio.sleep(0)
        others = await pool.grade(Item("ok", calls) for _ in range(50))

        assert not long.done()
        assert verdicts(others) == [Verdict.CORRECT] * 50
        assert verdicts(await long) == [Verdict.CORRECT]
    assert pool.counters.restarts == {"head_start": 1}


async def test_an_item_that_ran_into_the_deadline_is_remembered(stub_graders: ModuleType, tmp_path: Path):
    calls = tmp_path / "calls"
    hangs = Item("hang in C code", str(calls))

    async with Pool(1, deadline=2, grader=stub_graders.obey) as pool:
        await pool.grade([hangs])
        before = len(calls_of(calls))
        (again, other) = await pool.grade([hangs, Item("ok", str(calls))])

    assert verdicts([again, other]) == [Verdict.TIMEOUT, Verdict.CORRECT]
    assert again.grade.detail == "Grading the same item did not end within 2 s before."
    assert len(calls_of(calls)) == before + 1


async def test_an_item_that_waited_for_the_cpu_is_not_remembered(stub_graders: ModuleType, tmp_path: Path):
    calls = tmp_path / "calls"
    sleeps = Item("hang without using the CPU", str(calls))

    async with Pool(1, deadline=0.3, grader=stub_graders.obey) as pool:
        results = [*await pool.grade([sleeps]), *await pool.grade([sleeps])]

    assert verdicts(results) == [Verdict.TIMEOUT] * 2
    assert len(calls_of(calls)) == 2


async def test_an_item_that_crashes_its_worker_is_tried_twice_and_is_then_an_error(
    stub_graders: ModuleType, tmp_path: Path
):
    calls, others = tmp_path / "calls", tmp_path / "others"

    async with Pool(2, deadline=20, grader=stub_graders.obey) as pool:
        results = await pool.grade(
            [Item("ok", str(others)), Item("exit", str(calls)), *[Item("ok", str(others)) for _ in range(20)]]
        )

    assert verdicts(results) == [Verdict.CORRECT, Verdict.ERROR, *[Verdict.CORRECT] * 20]
    assert results[1].grade.detail == "Grading failed 2 times: its worker died (exit code 7)."
    assert len(set(calls_of(calls))) == 2  # Two calls, in two processes.
    assert len(calls_of(others)) == 21
    assert pool.counters.restarts == {"crash": 2}


async def test_an_item_that_lost_two_workers_to_a_kill_from_outside_is_graded_by_the_third(
    stub_graders: ModuleType, tmp_path: Path
):
    async with Pool(1, deadline=20, grader=stub_graders.obey) as pool:
        twice, thrice = [Item(f"be killed {n}", str(tmp_path / f"calls {n}")) for n in (2, 3)]
        results = [*await pool.grade([twice]), *await pool.grade([thrice])]

    assert verdicts(results) == [Verdict.CORRECT, Verdict.ERROR]
    assert results[1].grade.detail == "Grading failed 3 times: its worker died (SIGKILL)."


async def test_an_item_whose_worker_is_killed_is_graded_by_another(
    stub_graders: ModuleType, tmp_path: Path, wait_for: WaitFor
):
    calls = tmp_path / "calls"

    async with Pool(1, deadline=60, grader=stub_graders.obey) as pool:
        grading = asyncio.ensure_future(pool.grade([Item("wait for the file 'go'", str(calls))]))
        await until(wait_for, lambda: len(calls_of(calls)) == 1)
        first = int(calls_of(calls)[0])
        os.kill(first, signal.SIGKILL)
        (tmp_path / "go").touch()
        (result,) = await grading

    assert result.grade.verdict is Verdict.CORRECT
    assert result.grade.answer not in (None, str(first))


async def test_workers_that_were_killed_while_idle_are_replaced(
    stub_graders: ModuleType, tmp_path: Path, wait_for: WaitFor
):
    async with Pool(2, deadline=20, grader=stub_graders.obey) as pool:
        await until(wait_for, lambda: len(pool.pids) == 2)
        killed = pool.pids
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        results = await pool.grade(Item("ok", str(tmp_path / "calls")) for _ in range(10))
        await until(wait_for, lambda: len(pool.pids) >= 2)

        assert verdicts(results) == [Verdict.CORRECT] * 10
        assert not {int(result.grade.answer or 0) for result in results} & set(killed)
        assert not set(pool.pids) & set(killed)


async def test_a_worker_is_replaced_after_many_items_and_none_of_them_is_lost(
    stub_graders: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("math_reward.worker_process.RECYCLE_ITEMS", 20)

    async with Pool(1, deadline=20, grader=stub_graders.obey) as pool:
        results: list[Graded] = []
        while pool.counters.restarts["recycled"] < 3:
            results += await pool.grade([Item("ok", str(tmp_path / "calls"))] * 5)

    assert verdicts(results) == [Verdict.CORRECT] * len(results)
    assert len({result.grade.answer for result in results}) >= 3
    assert set(pool.counters.restarts) == {"recycled"}
    assert len(calls_of(tmp_path / "calls")) == len(results)


async def test_a_worker_has_only_so_much_memory(stub_graders: ModuleType, tmp_path: Path):
    async with Pool(1, deadline=20, grader=stub_graders.obey) as pool:
        results = await pool.grade([Item("allocate", str(tmp_path / "calls"))])

    assert verdicts(results) == [Verdict.TOO_COMPLEX]


async def test_an_urgent_item_overtakes_the_queue(stub_graders: ModuleType, tmp_path: Path, wait_for: WaitFor):
    calls = tmp_path / "calls"
    async with Pool(1, deadline=60, grader=stub_graders.obey) as pool:
        busy = asyncio.ensure_future(pool.grade([Item("wait for the file 'go'", str(calls))] * 20))
        await until(wait_for, lambda: len(calls_of(calls)) == 1)
        later = asyncio.ensure_future(pool.grade([Item("hang without using the CPU", str(calls))]))
        await asyncio.sleep(0.1)
        urgent = asyncio.ensure_future(pool.grade([Item("ok", str(calls))], first=True))
        (tmp_path / "go").touch()

        assert verdicts(await urgent) == [Verdict.CORRECT]
        assert not later.done()
        await busy


async def test_more_items_than_may_wait_are_refused_and_none_of_them_is_graded(
    stub_graders: ModuleType, tmp_path: Path, wait_for: WaitFor
):
    calls, refused = tmp_path / "calls", tmp_path / "refused"
    async with Pool(1, deadline=60, grader=stub_graders.obey, max_queued=100) as pool:
        busy = asyncio.ensure_future(pool.grade([Item("wait for the file 'go'", str(calls))] * 200))
        await until(wait_for, lambda: len(calls_of(calls)) == 1)

        with pytest.raises(QueueFull) as refusal:
            await pool.grade([Item("ok", str(refused))])

        assert refusal.value.retry_after >= 1
        (tmp_path / "go").touch()
        assert verdicts(await busy) == [Verdict.CORRECT] * 200  # More than may wait, but nothing waited.
        assert verdicts(await pool.grade([Item("ok", str(calls))])) == [Verdict.CORRECT]
    assert not refused.exists()


async def test_leaving_the_pool_ends_every_process_and_nobody_waits_for_ever(
    stub_graders: ModuleType, tmp_path: Path, wait_for: WaitFor
):
    calls = tmp_path / "calls"
    async with Pool(2, deadline=60, grader=stub_graders.obey) as pool:
        await until(wait_for, lambda: len(pool.pids) == 2)
        grading = asyncio.ensure_future(pool.grade([Item("hang without using the CPU", str(calls))] * 5))
        await until(wait_for, lambda: len(calls_of(calls)) == 2)
        pids = pool.pids

    assert len(pids) == 2
    assert not any(psutil.pid_exists(pid) for pid in pids)
    with pytest.raises(PoolClosed):
        await grading
    with pytest.raises(PoolClosed):
        await pool.grade([Item("ok", str(calls))])


async def test_nobody_waits_for_a_grader_that_no_worker_can_load(stub_graders: ModuleType):
    async with Pool(1, deadline=1, grader=stub_graders.ExitsWhenLoaded()) as pool:
        results = await pool.grade([Item("1", "1"), Item("2", "2")])

    assert verdicts(results) == [Verdict.ERROR] * 2
    assert results[0].grade.detail == "Grading failed 2 times: a worker could not start (exit code 9)."


async def test_an_item_travels_whole(stub_graders: ModuleType):
    options = Options(Mode.STRICT, rel_tol=0.25, allow_rounded=True)

    async with Pool(1, deadline=20, grader=stub_graders.repeat) as pool:
        results = await pool.grade(
            [
                Item("P and A\ud800", ("1", "2"), "P", options),
                Item("P and A", "1", "P", prompt_may_be_absent=True),
                Item("just A", "1", "P", prompt_may_be_absent=True),
            ]
        )

    assert [result.grade.answer for result in results] == [
        repr(("P and A\ud800", ("1", "2"), "P", options)),
        repr(("P and A", "1", "P", Options())),
        repr(("Pjust A", "1", "P", Options())),
    ]


async def test_the_caches_of_the_workers_are_counted(wait_for: WaitFor):
    async with Pool(1, deadline=20) as pool:
        for _ in range(3):
            await pool.grade([Item(r"\boxed{\frac{271}{829}}", "271/829")])
        # A worker tells of its caches after the grades.
        await until(wait_for, lambda: pool.counters.cache_hits["verdict"] >= 2)

    assert pool.counters.cache_hits["verdict"] == 2
    assert pool.counters.cache_misses["verdict"] == 1
