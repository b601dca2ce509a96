"""What the client raises instead of a result: each message is a sentence that names the service and what to do, and
each error has its cause as a value."""

from enum import Enum


class Cause(Enum):
    """Why an item has no result."""

    CLOSED = "the client is closed"
    TOKEN = "the service refuses the token, or requires one"
    PATH = "the service has no such route"
    CERTIFICATE = "the service's certificate is not trusted, or the authority's cannot be read"
    ITEM = "the service refuses the item or the request"
    REFERENCE = "the reference answer cannot be read"
    UNREACHABLE = "there is no connection to the service"
    HUNG_UP = "the service ended the connection without an answer"
    LATE = "the service did not answer in time"
    BUSY = "the service is overloaded, or something before it says that it is gone"
    FAILED = "the service failed at the request or the item"
    BAD_ANSWER = "the answer is not one of a reward service"

    @property
    def refuses_all(self) -> bool:
        """Whether every other request of this client would end in the same way."""
        return self in (Cause.CLOSED, Cause.TOKEN, Cause.PATH, Cause.CERTIFICATE)


class ClientError(Exception):
    """An item has no result.

    Attributes:
        cause: why.
        url: of the service that was asked last, without its query; empty if none was.
        attempts: requests that contained the item.
        seconds: from the call to the error.
    """

    cause = Cause.FAILED

    # The defaults let pickle rebuild it: Ray and multiprocessing send exceptions between processes.
    def __init__(
        self, message: str, url: str = "", attempts: int = 0, seconds: float = 0.0, cause: Cause | None = None
    ) -> None:
        super().__init__(message)
        self.url = url
        self.attempts = attempts
        self.seconds = seconds
        self.cause = cause or type(self).cause


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


ERROR_OF: dict[Cause, type[ClientError]] = {
    Cause.CLOSED: ClientClosed,
    Cause.TOKEN: Refused,
    Cause.PATH: Refused,
    Cause.CERTIFICATE: Refused,
    Cause.ITEM: Refused,
    Cause.REFERENCE: NotJudged,
    Cause.BAD_ANSWER: BadAnswer,
}
"""Cause -> what is raised for it; `Unavailable` for the others."""
