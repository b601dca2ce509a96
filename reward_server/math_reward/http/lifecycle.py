"""The service's lifecycle: whether it takes new work, and how much is under way."""

from dataclasses import dataclass


@dataclass
class Lifecycle:
    """Shared by the command, which drains the service, and the guard, which refuses new work."""

    draining: bool = False
    """True from the first signal to stop: new work is refused, work under way is finished."""
    in_flight: int = 0
    """How many POST requests are under way."""
