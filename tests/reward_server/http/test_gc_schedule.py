"""When full garbage collections happen: not while many requests are under way."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from math_reward.http.event_loop import gc_schedule
from math_reward.http.event_loop.gc_schedule import GCSchedule


class Circle:
    """Refers to itself, so that only the collector can free it."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture
def schedule(monkeypatch: pytest.MonkeyPatch) -> Iterator[GCSchedule]:
    thresholds = gc.get_threshold()
    monkeypatch.setattr(gc_schedule, "PAUSE_SECONDS", 0)
    yield GCSchedule()
    gc.unfreeze()
    gc.set_threshold(*thresholds)


def old_circle() -> "weakref.ref[Circle]":
    """A circle that has grown old and that nobody holds any more."""
    circle = Circle()
    gc.collect(1)
    return weakref.ref(circle)


def test_many_requests_under_way_put_it_off_and_few_do_not(schedule: GCSchedule):
    circle = old_circle()

    schedule.tick(in_flight=2000)
    assert circle() is not None
    schedule.tick(in_flight=3)
    assert circle() is None


def test_a_load_that_never_pauses_gets_one_all_the_same(schedule: GCSchedule, monkeypatch: pytest.MonkeyPatch):
    circle = old_circle()
    monkeypatch.setattr(gc_schedule, "PATIENCE_SECONDS", -1)

    schedule.tick(in_flight=2000)

    assert circle() is None
