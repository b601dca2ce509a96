"""The total size of the bodies of all requests under way, which has a limit."""


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
