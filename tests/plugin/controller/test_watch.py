"""What is said of a start that takes long, and until when."""

import threading

import pytest

from openrlhf_gtpo.controller import watch


def test_a_start_that_takes_long_is_told_until_it_is_over(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(watch, "FIRST_SECONDS", 0.01)
    over, asked = threading.Event(), threading.Event()
    threads = set(threading.enumerate())
    started = watch.Watch(over=over.is_set)
    started.waits_for(lambda: asked.set() or over.set() or "an engine")  # type: ignore[func-returns-value]
    started.begin(0)
    assert asked.wait(30)
    for thread in set(threading.enumerate()) - threads:
        thread.join(30)
    assert capsys.readouterr().out.splitlines() == [
        "openrlhf-gtpo train: no step begun after 0.000167 minutes: waiting for an engine"
    ]


def test_a_watch_that_is_ended_says_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    threads = set(threading.enumerate())
    started = watch.Watch()
    started.begin(0)
    (thread,) = set(threading.enumerate()) - threads
    started.end()
    thread.join(30)
    assert not thread.is_alive()
    assert not capsys.readouterr().out
