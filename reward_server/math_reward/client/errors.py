"""What the client raises instead of a result: each message is a sentence that names the service and what to do, and
each error has its cause as a value."""

from enum import Enum


class Cause(Enum):
    """Why an item has no result."""

    CLOSED = "the client is closed"
    TOKEN = "the service refuses the token, or requires one"
    PATH = "the service has no such route, or sends requests elsewhere"
    CERTIFICATE = "the service's certificate is not trusted, or the authority's cannot be read"
    ITEM = "the service refuses the item or the request"
    REFERENCE = "the reference answer cannot be read"
    UNAVAILABLE = "there was no answer in time, or the service failed at the request or the item"
    BAD_ANSWER = "the answer is not one of a reward service"

    @property
    def refuses_all(self) -> bool:
        """Whether every other request of this client would end in the same way."""
        return self in (Cause.CLOSED, Cause.TOKEN, Cause.PATH, Cause.CERTIFICATE)


class ClientError(Exception):
    """An item has no result.

    Inside the client it is what one request came to, and its message continues a sentence that begins with the
    service; ``becomes`` makes the error that a caller gets.

    Attributes:
        cause: why.
        divisible: whether a smaller batch may succeed.
        retry_after: seconds for which the service asked for no requests.
    """

    cause = Cause.UNAVAILABLE

    # The defaults let pickle rebuild it: Ray and multiprocessing send exceptions between processes.
    def __init__(
        self, message: str, cause: Cause | None = None, *, divisible: bool = False, retry_after: float = 0.0
    ) -> None:
        super().__init__(message)
        self.cause = cause or type(self).cause
        self.divisible = divisible
        self.retry_after = retry_after

    def becomes(self, message: str) -> "ClientError":
        """The same error with a whole sentence."""
        return type(self)(message, self.cause)


class Refused(ClientError):
    """The service refuses the request or the item; another attempt cannot help."""

    cause = Cause.ITEM


class NotJudged(Refused):
    """The service answered, but did not judge the completion: the reference answer cannot be read."""

    cause = Cause.REFERENCE


class Unavailable(ClientError):
    """No service gave a result within the deadline."""


class BadAnswer(Unavailable):
    """As `Unavailable`, and the last answer was not one of a reward service."""

    cause = Cause.BAD_ANSWER


class ClientClosed(ClientError):
    """The client is closed, or belongs to another process or event loop."""

    cause = Cause.CLOSED
