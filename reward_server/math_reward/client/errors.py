"""What the client raises instead of a result: each message is a sentence that names the service and what to do."""


class ClientError(Exception):
    """An item has no result.

    Attributes:
        url: of the service that was asked last; empty if none was.
        attempts: requests that contained the item.
    """

    # The defaults let pickle rebuild it: Ray and multiprocessing send exceptions between processes.
    def __init__(self, message: str, url: str = "", attempts: int = 0) -> None:
        super().__init__(message)
        self.url = url
        self.attempts = attempts


class Refused(ClientError):
    """The service refuses the request or the item; another attempt cannot help."""


class NotJudged(Refused):
    """The service answered, but did not judge the completion: the reference answer cannot be read."""


class Unavailable(ClientError):
    """No service gave a result within the deadline."""


class BadAnswer(Unavailable):
    """As `Unavailable`, and the last answer was not one of a reward service."""


class ClientClosed(ClientError):
    """The client is closed, or belongs to another process or event loop."""
