"""A reward function of one's own has a limit of time."""

import asyncio
import threading
import time
from typing import Any

import pytest

from openrlhf_gtpo.rewards import function
from openrlhf_gtpo.rewards.function import LimitedFunction

from ...refusals import assert_refusal


def texts(number: int) -> tuple[str, str, str]:
    return f"6*7? {number}", "6*7?", "42"


async def outcomes(limited: LimitedFunction, count: int) -> list[Any]:
    return await asyncio.gather(*(limited(*texts(n)) for n in range(count)), return_exceptions=True)


async def test_calls_that_never_return_are_lost_rewards_all_at_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that wait for a thread: else they would follow each other for hours."""
    monkeypatch.setattr(function, "THREADS", 2)
    stands, called = threading.Event(), []

    def never_returns(*texts: Any) -> None:
        called.append(texts)
        stands.wait(60)

    lost = await outcomes(LimitedFunction(never_returns, 1.0), 10)

    assert len(called) < 10, "they do not follow each other, two at a time"
    for error in lost:
        assert isinstance(error, ValueError)
        assert_refusal(f"{error}.", "1 s", "--reward.deadline")
    stands.set()


async def test_calls_that_wait_for_slow_ones_are_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten calls of 0.3 s by two threads take longer than the second that each may."""
    monkeypatch.setattr(function, "THREADS", 2)

    def slow(queries: list[str], prompts: list[str], labels: list[str]) -> dict[str, Any]:
        time.sleep(0.3)
        return {"rewards": float(queries[0].removeprefix(prompts[0])), "labels": labels}

    found = await outcomes(LimitedFunction(slow, 1.0), 10)

    assert found == [{"rewards": float(n), "labels": ["42"]} for n in range(10)]


async def test_one_that_stands_does_not_hold_up_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(function, "THREADS", 1)
    stands, calls = threading.Event(), iter(range(100))

    def first_stands(*_: Any) -> dict[str, Any]:
        if next(calls) == 0:
            stands.wait(60)
        return {"rewards": 1.0}

    limited = LimitedFunction(first_stands, 1.0)
    with pytest.raises(ValueError, match="did not return"):
        await limited(*texts(0))
    assert await outcomes(limited, 3) == [{"rewards": 1.0}] * 3
    stands.set()
