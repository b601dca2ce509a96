"""The worker processes: hard deadlines, crashes, replacement and clean ends, with real processes and real signals."""

import asyncio
import errno
import functools
from collections.abc import Callable
from multiprocessing import forkserver
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pytest

import math_reward.pool.pool
from math_reward.grader import Mode, Options, Verdict
from math_reward.pool.item import Graded, Item
from math_reward.pool.lane import AT_ONCE, NoWorkers
from math_reward.pool.pool import Pool, PoolClosed, QueueFull
from math_reward.pool.worker_process import CannotStart, WorkerProcess

from ...refusals import assert_refusal
from ..conftest import WaitFor

Obeying = Callable[..., Pool]


@pytest.fixture
def obeying(stub_graders: ModuleType) -> Obeying:
    """Makes pools whose grader does what a completion says."""
    return functools.partial(Pool, grader=stub_graders.obey)


def verdicts(results: list[Graded]) -> list[Verdict]:
    return [result.grade.verdict for result in results]


def calls_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


async def until(wait_for: WaitFor, condition: Callable[[], bool]) -> None:
    await asyncio.to_thread(wait_for, condition)


async def test_a_hanging_item_is_a_timeout_and_the_others_are_answered_in_order(obeying: Obeying, tmp_path: Path):
    calls = str(tmp_path / "calls")
    commands = ["ok", "hang in C code", "ok", "hang in C code", "ok", "ok"]

    async with obeying(2, deadline=0.5) as pool:
        results = await pool.grade(Item(command, calls) for command in commands)

    ok, late = Verdict.CORRECT, Verdict.TIMEOUT
    assert verdicts(results) == [ok, late, ok, late, ok, ok]
    assert_refusal(str(results[1].grade.detail), "0.5 s")
    assert [(results[i].seconds, results[i].grade.reference) for i in (1, 3)] == [(0.5, calls)] * 2
    assert pool.restarts["deadline"] == 2


async def test_a_machine_that_gives_no_cpu_makes_no_timeout(obeying: Obeying, tmp_path: Path, wait_for: WaitFor):
    """A worker that is stopped is what a worker under load is, only worse."""
    calls = tmp_path / "calls"

    async with obeying(1, deadline=0.8) as pool:
        long = asyncio.ensure_future(pool.grade([Item("take long", str(calls))]))
        await until(wait_for, lambda: len(calls_of(calls)) == 2)
        worker = psutil.Process(int(calls_of(calls)[1]))
        worker.suspend()
        await asyncio.sleep(1)
        worker.resume()

        assert verdicts(await long) == [Verdict.CORRECT]
    assert pool.restarts == {"head_start": 1}


async def test_what_a_chunk_has_before_and_behind_a_hanging_item_is_graded_once(obeying: Obeying, tmp_path: Path):
    others, hanging = tmp_path / "others", tmp_path / "hanging"
    items = [Item("ok", str(others)) for _ in range(30)]
    items[10] = Item("hang in C code", str(hanging))

    async with obeying(1, deadline=2) as pool:
        await pool.grade([Item("ok", str(tmp_path / "warm"))])
        results = await pool.grade(items)

    assert verdicts(results) == [Verdict.TIMEOUT if i == 10 else Verdict.CORRECT for i in range(30)]
    assert len(calls_of(others)) == 29
    assert len(calls_of(hanging)) == 2  # Once with a head start, once with the whole deadline.


@pytest.mark.parametrize(
    ("command", "verdict", "lost", "named"),
    [
        ("exit", Verdict.ERROR, 2, ["2 times", "exit code 7"]),
        ("be killed 9", Verdict.CORRECT, 9, []),
        ("be killed 10", Verdict.ERROR, 10, ["10 times", "SIGKILL"]),
        ("allocate", Verdict.TOO_COMPLEX, 0, []),
    ],
    ids=["crashes twice", "is killed from outside nine times", "is killed ten times", "wants too much memory"],
)
async def test_an_item_whose_worker_is_lost_is_tried_again_so_often_and_its_neighbours_are_graded_once(
    obeying: Obeying, tmp_path: Path, command: str, verdict: Verdict, lost: int, named: list[str]
):
    tried, others = tmp_path / "tried", tmp_path / "others"
    items = [Item("ok", str(others)), Item(command, str(tried)), *[Item("ok", str(others))] * 20]

    async with obeying(2, deadline=20) as pool:
        results = await pool.grade(items)

    assert verdicts(results) == [Verdict.CORRECT, verdict, *[Verdict.CORRECT] * 20]
    calls = lost if verdict is Verdict.ERROR else lost + 1
    assert len(calls_of(tried)) == len(set(calls_of(tried))) == calls, "each in another process"
    assert len(calls_of(others)) == 21
    assert pool.restarts["crash"] == pool.restarts.total() == lost
    if named:
        assert_refusal(str(results[1].grade.detail), *named)


@pytest.mark.parametrize("together", [True, False])
async def test_a_worker_that_an_item_has_filled_is_replaced_before_the_next(
    obeying: Obeying, tmp_path: Path, together: bool
):
    calls = str(tmp_path / "calls")
    items = [Item(command, calls) for command in ("hoard", "ok", "need room")]
    # All of it in the fast lane.
    async with obeying(1, deadline=20, head_start=20) as pool:
        if together:
            results = await pool.grade(items)
        else:
            results = [one for item in items for one in await pool.grade([item])]

    assert verdicts(results) == [Verdict.CORRECT] * 3
    assert set(pool.restarts) == {"recycled"}


async def test_more_items_than_may_wait_are_refused_and_an_urgent_one_overtakes_those_that_do(
    obeying: Obeying, tmp_path: Path, wait_for: WaitFor
):
    calls, refused = tmp_path / "calls", tmp_path / "refused"
    async with obeying(1, deadline=60, max_queued=100) as pool:
        busy = asyncio.ensure_future(pool.grade([Item("wait for the file 'go'", str(calls))] * 200))
        await until(wait_for, lambda: len(calls_of(calls)) == 1)

        with pytest.raises(QueueFull):
            await pool.grade([Item("ok", str(refused))])
        urgent = asyncio.ensure_future(pool.grade([Item("ok", str(calls))], urgent=True))
        await asyncio.sleep(0)
        (tmp_path / "go").touch()
        assert verdicts(await urgent) == [Verdict.CORRECT]
        assert not busy.done()
        assert verdicts(await busy) == [Verdict.CORRECT] * 200  # More than may wait, but nothing waited.
        assert verdicts(await pool.grade([Item("ok", str(calls))])) == [Verdict.CORRECT]
    assert not refused.exists()


async def test_leaving_the_pool_ends_every_process_and_nobody_waits_for_ever(
    obeying: Obeying, tmp_path: Path, wait_for: WaitFor
):
    calls = tmp_path / "calls"
    async with obeying(2, deadline=60) as pool:
        await until(wait_for, lambda: len(pool.pids) == 4)
        grading = asyncio.ensure_future(pool.grade([Item("hang without using the CPU", str(calls))] * 5))
        await until(wait_for, lambda: len(calls_of(calls)) == 2)
        pids = pool.pids

    assert len(pids) == 4, "two in each lane"
    assert not any(psutil.pid_exists(pid) for pid in pids)
    with pytest.raises(PoolClosed):
        await grading
    with pytest.raises(PoolClosed):
        await pool.grade([Item("ok", str(calls))])


@pytest.mark.parametrize(("how", "said"), [("exits", "exit code 9"), ("hangs", "a worker did not start within 0.5 s")])
async def test_a_grader_that_no_worker_can_load_refuses_what_waits_and_what_comes(
    stub_graders: ModuleType, monkeypatch: pytest.MonkeyPatch, how: str, said: str
):
    monkeypatch.setattr(math_reward.pool.pool, "NO_WORKER_SECONDS", 0.2)
    if how == "hangs":
        monkeypatch.setattr(math_reward.pool.worker_process, "START_SECONDS", 0.5)

    async with Pool(1, deadline=1, grader=stub_graders.NotToBeLoaded(how)) as pool:
        with pytest.raises(NoWorkers) as refusal:
            await pool.grade([Item("1", "1"), Item("2", "2")])
        with pytest.raises(NoWorkers):
            await pool.grade([Item("3", "3")])

        assert_refusal(str(refusal.value), said)
        assert pool.queued == 0


@pytest.mark.parametrize(
    "error",
    [
        CannotStart("a worker could not start (exit code 1)"),
        OSError(errno.EMFILE, "Too many open files"),
        RuntimeError("can't start new thread"),
    ],
    ids=["the worker ended", "no descriptor", "whatever it is"],
)
async def test_starts_that_fail_cost_no_item_and_the_first_that_succeeds_takes_up_the_work(
    obeying: Obeying,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
):
    start, failures = WorkerProcess.start, iter(range(4))

    async def fails_at_first(worker: WorkerProcess, grader: Any) -> None:
        if next(failures, None) is not None:
            raise error
        await start(worker, grader)

    monkeypatch.setattr(WorkerProcess, "start", fails_at_first)

    async with obeying(1, deadline=20) as pool:
        results = await pool.grade(Item("ok", str(tmp_path / "calls")) for _ in range(5))

    assert verdicts(results) == [Verdict.CORRECT] * 5
    assert pool.restarts == {"could_not_start": 4}
    assert [record.message.count(error.args[-1]) for record in caplog.records] == [1], "said once, and not at each try"


async def test_a_lane_that_stays_without_a_worker_is_named(
    obeying: Obeying, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait_for: WaitFor
):
    monkeypatch.setattr(math_reward.pool.pool, "EMPTY_SECONDS", 0.2)
    start = WorkerProcess.start

    async def fails_in_the_slow_lane(worker: WorkerProcess, grader: Any) -> None:
        if worker._cpu_seconds == 20:
            raise OSError(errno.EMFILE, "Too many open files")
        await start(worker, grader)

    monkeypatch.setattr(WorkerProcess, "start", fails_in_the_slow_lane)
    async with obeying(1, deadline=20) as pool:
        await pool.grade([Item("ok", str(tmp_path / "calls"))])
        while pool.problem() is None:
            await asyncio.sleep(0.01)
        assert pool.workers == {"fast": 1, "slow": 0}
        assert_refusal(str(pool.problem()), "slow lane", "Too many open files")
        monkeypatch.setattr(WorkerProcess, "start", start)
        await until(wait_for, lambda: pool.workers["slow"] == 1)
        assert pool.problem() is None


async def test_a_fork_server_that_is_killed_again_and_again_costs_no_item(
    obeying: Obeying, tmp_path: Path, wait_for: WaitFor
):
    """Each round: the fork server dies, then an item needs a new worker, and is slow as well."""
    async with obeying(1, deadline=20) as pool:
        for turn in range(3):
            results = await pool.grade([Item("ok", str(tmp_path / "ok"))])
            # That of this process; other tests may have started servers, which have their own.
            fork_server = psutil.Process(forkserver._forkserver._forkserver_pid)  # type: ignore[attr-defined]
            assert fork_server.children(), "its children are the workers"
            fork_server.kill()
            # It stays a zombie until multiprocessing asks for its exit code.
            wait_for(lambda fork_server=fork_server: fork_server.status() == psutil.STATUS_ZOMBIE)
            results += await pool.grade([Item("take long", str(tmp_path / f"long {turn}"))])

            assert verdicts(results) == [Verdict.CORRECT] * 2
    # How a worker ended whose fork server had died is unknown, and no crash.
    assert set(pool.restarts) <= {"unknown", "head_start", "could_not_start"}
    assert pool.restarts["unknown"] >= 3


async def test_what_nobody_waits_for_any_more_is_dropped(obeying: Obeying, tmp_path: Path, wait_for: WaitFor):
    calls, abandoned = tmp_path / "calls", tmp_path / "abandoned"
    async with obeying(1, deadline=60) as pool:
        busy = asyncio.ensure_future(pool.grade([Item("wait for the file 'go'", str(calls))] * 40))
        await until(wait_for, lambda: len(calls_of(calls)) == 1)
        waited = pool.queued
        gone = asyncio.ensure_future(pool.grade([Item("hang in C code", str(abandoned))] * 60))
        await until(wait_for, lambda: pool.queued == waited + 60)
        gone.cancel()
        await until(wait_for, lambda: pool.queued == waited)

        (tmp_path / "go").touch()
        assert verdicts(await busy) == [Verdict.CORRECT] * 40
        assert verdicts(await pool.grade([Item("ok", str(calls))])) == [Verdict.CORRECT]
    assert not abandoned.exists()


async def test_slow_items_of_one_request_do_not_come_before_those_of_another(obeying: Obeying, tmp_path: Path):
    many, other = tmp_path / "many", tmp_path / "other"
    async with obeying(1, deadline=60) as pool:
        greedy = asyncio.ensure_future(pool.grade([Item("take long", str(many))] * 12))
        await asyncio.sleep(0)
        modest = await pool.grade([Item("take long", str(other))])

        assert verdicts(modest) == [Verdict.CORRECT]
        assert not greedy.done()
        greedy.cancel()
    # Twelve had a head start at most; few of them had more before the other's turn came.
    assert len(calls_of(many)) < 12 + 6


@pytest.fixture
def chunks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many items workers get at once, from now on."""
    found: list[int] = []
    send = WorkerProcess.send
    monkeypatch.setattr(
        WorkerProcess, "send", lambda worker, items: (found.append(len(items)), send(worker, items))[1]
    )
    return found


async def test_a_worker_holds_eight_items_of_a_request_at_most(obeying: Obeying, tmp_path: Path, chunks: list[int]):
    async with obeying(1, deadline=60) as pool:
        await pool.grade([Item("ok", str(tmp_path / "calls"))] * 100)

    assert (chunks[0], max(chunks)) == (AT_ONCE, AT_ONCE)


async def test_where_few_items_wait_a_worker_takes_one(obeying: Obeying, tmp_path: Path, chunks: list[int]):
    # All of it in the fast lane.
    async with obeying(2, deadline=60, head_start=60) as pool:
        await pool.grade([Item("ok", str(tmp_path / "calls"))] * 2)

    assert chunks == [1, 1]


async def test_after_a_slow_item_the_next_of_its_request_are_handed_out_one_by_one(
    obeying: Obeying, tmp_path: Path, chunks: list[int]
):
    async with obeying(1, deadline=60) as pool:
        greedy = asyncio.ensure_future(pool.grade([Item("take long", str(tmp_path / "calls"))] * 30))
        while pool.restarts["head_start"] < 4:
            await asyncio.sleep(0.01)
        greedy.cancel()

    assert chunks[0] == AT_ONCE
    assert set(chunks[1:]) == {1}


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
