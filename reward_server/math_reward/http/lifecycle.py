"""The service's lifecycle: whether it takes new work, and how much is under way."""

from collections.abc import Callable


class Lifecycle:
    """Shared by the command, which drains the service, and the middleware and routes, which answer requests."""

    def __init__(self) -> None:
        self.draining = False
        """True from the first signal to stop: new work is refused, work under way is finished."""
        self.in_flight = 0
        """How many requests for work are under way."""
        self.give_up: Callable[[], None] = lambda: None
        """Refuses all work that is under way. The application sets it."""

    @property
    def drained(self) -> bool:
        return self.draining and self.in_flight == 0
