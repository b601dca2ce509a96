"""The pool for code without an event loop: ``grade`` with a deadline, and what waits when the pool is left."""

from pathlib import Path
from types import ModuleType

import psutil
import pytest

from math_reward.grader import Options, Verdict, grade
from math_reward.pool.grader import Grader
from math_reward.pool.pool import PoolClosed
from math_reward.pool.worker_pool import Item, WorkerPool

ENDLESS = r"\int_0^1 \ln(1+7x^3)\cos(x^2)\,dx"


@pytest.fixture(scope="module")
def grader():
    with Grader(deadline=0.5) as grader:
        yield grader


def test_an_answer_that_takes_too_long_is_a_timeout_and_the_next_one_is_graded(grader: Grader):
    late = grader.grade(rf"\boxed{{{ENDLESS}}}", ENDLESS.replace("x", "y") + "+1")

    assert late.verdict is Verdict.TIMEOUT
    assert grader.grade(r"\boxed{\frac{84}{2}}", "42").correct


@pytest.mark.parametrize(
    "arguments",
    [
        (r"\boxed{0.5}", "1/2"),
        ("It is 4.", 4),
        (r"\boxed{7}", ["6", 7.0]),
        (r"\boxed{7}", ("6", "7")),
        ("What is 2+2? It is 4.", "4", "What is 2+2?"),
        ("It is 4.", "4", "What is 2+2?"),
        (r"\boxed{3.1}", "3", None, Options(rel_tol=0.1)),
        (r"\boxed{1}", float("nan")),
        (r"\boxed{1}", None),
    ],
)
def test_its_grades_are_those_of_the_library(grader: Grader, arguments: tuple):
    graded, known = grader.grade(*arguments), grade(*arguments)

    assert (graded.verdict, graded.answer, graded.stage) == (known.verdict, known.answer, known.stage)


@pytest.mark.parametrize("deadline", [0, -1, float("nan"), 1e9])
def test_a_deadline_is_a_number_of_seconds(deadline: float):
    with pytest.raises(ValueError, match=rf"^deadline: {deadline} is not between "):
        Grader(deadline=deadline)


def test_what_waits_when_the_pool_is_left_is_told_and_no_process_is_left(stub_graders: ModuleType, tmp_path: Path):
    with WorkerPool(workers=1, deadline=60, grader=stub_graders.obey) as pool:
        done = pool.submit(Item("ok", str(tmp_path / "calls")))
        waiting = pool.submit(Item("hang without using the CPU", str(tmp_path / "calls")))
        assert done.result(timeout=120).grade.correct
        workers = pool.pids
        assert workers

    with pytest.raises(PoolClosed):
        waiting.result(timeout=120)
    assert not any(map(psutil.pid_exists, workers))
