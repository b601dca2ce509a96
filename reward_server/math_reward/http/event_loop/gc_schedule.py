"""When Python's garbage collector walks through everything: not in the middle of a load.

With two thousand requests under way a full collection takes a fifth of a second, in which nobody is answered, and
Python would start one every few seconds. It would find next to nothing.
"""

import gc
import time

FEW_REQUESTS = 100
"""With so many under way a full collection is a matter of milliseconds."""

PAUSE_SECONDS = 5.0
"""From one full collection to the next, at least."""

PATIENCE_SECONDS = 300.0
"""A load that never pauses gets one all the same after this, so that memory is bounded."""


class GCSchedule:
    """Takes the full collections over from Python; those of young objects, which are short, stay automatic."""

    def __init__(self) -> None:
        # All that was imported lives for ever and need not be looked at again.
        gc.collect()
        gc.freeze()
        young, middle, _ = gc.get_threshold()
        gc.set_threshold(young, middle, 1_000_000)
        self._last = time.monotonic()

    def tick(self, in_flight: int) -> None:
        """To be called several times per second, with the number of requests under way."""
        if not gc.get_count()[2]:
            return  # Nothing has grown old since the last one.
        since = time.monotonic() - self._last
        if since > PATIENCE_SECONDS or (in_flight < FEW_REQUESTS and since > PAUSE_SECONDS):
            gc.collect()
            self._last = time.monotonic()
