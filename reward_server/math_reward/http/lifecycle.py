"""Whether the service takes new work, and how much work is under way."""

from collections.abc import Callable


class Lifecycle:
    """Shared by the command, which drains the service when it is told to stop, and by what answers requests."""

    def __init__(self) -> None:
        self.draining = False
        """True from the first signal to stop: no new work is taken, and what is under way is answered."""
        self.in_flight = 0
        """Requests for work that are being answered."""
        self.give_up: Callable[[], None] = lambda: None
        """Ends the wait of all work that is under way: it is refused. Set by what does the work."""

    @property
    def drained(self) -> bool:
        return self.draining and self.in_flight == 0
