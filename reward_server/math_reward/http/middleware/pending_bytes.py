"""The total size of the bodies of all requests under way, which has a limit."""

from starlette.exceptions import HTTPException


class PendingBytes:
    """Counts bytes from when they arrive until their items are answered.

    Args:
        limit: how many there may be.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.count = 0

    @property
    def too_many(self) -> bool:
        return self.count > self.limit

    def refusal(self, **headers: str) -> HTTPException:
        """The answer to a request while there are too many."""
        said = f"The requests under way have more than the {self.limit:,} bytes that are allowed together"
        return HTTPException(429, f"{said}: try again in 1 s.", headers={**headers, "Retry-After": "1"})
