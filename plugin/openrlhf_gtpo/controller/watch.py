"""Says on the terminal that a step, or the start before it, takes long, and what it waits for."""

import threading
import time
from collections.abc import Callable

from openrlhf_gtpo.terminal import MARK

FIRST_SECONDS = 600.0
"""After this time the first line comes; each further one when it is twice as long."""


class Watch:
    """A thread of the controller that watches its steps, and one of the driver until then."""

    def __init__(self, over: Callable[[], bool] = lambda: False) -> None:
        """``over``: asked before each line, whether there is nothing more to watch."""
        self._over = over
        self._what: Callable[[], str] = lambda: "its start"
        self._step = 0
        self._began = time.monotonic()
        self._next = FIRST_SECONDS
        self._changed = threading.Condition()
        self._running = False

    def begin(self, step: int) -> None:
        """The step, from 1, begins; 0 is the start of the run."""
        with self._changed:
            self._step, self._began, self._next = step, time.monotonic(), FIRST_SECONDS
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="watch", daemon=True).start()
            self._changed.notify()

    def waits_for(self, what: str | Callable[[], str]) -> None:
        """What the step waits for from now on; a function is asked when a line is due."""
        self._what = what if callable(what) else lambda: what

    def end(self) -> None:
        """Watch no more."""
        with self._changed:
            self._over = lambda: True
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._over():
                    return
                left = self._began + self._next - time.monotonic()
                if left > 0:
                    self._changed.wait(left)
                    continue
                minutes, step = self._next / 60, self._step
                self._next *= 2
            try:
                what = self._what()
            except Exception as error:  # an actor that has died; the run itself will say so
                what = f"engines that do not answer ({type(error).__name__})"
            late = f"step {step} not done" if step else "no step begun"
            print(f"{MARK}{late} after {minutes:.3g} minutes: waiting for {what}", flush=True)
