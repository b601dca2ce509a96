"""Checks a request before its body is read: its token or host name, its size, the size of all together, its time."""

import hmac

import anyio
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from math_reward.http.lifecycle import Lifecycle
from math_reward.http.middleware.host_check import is_own_name
from math_reward.http.middleware.request_throttle import RequestThrottle
from math_reward.settings import Settings

DRAINING = "The service is draining: it stops and takes no new work."

WRONG_HOST = (
    "This service has no token, so it does not answer to a name that another site could have: ask for it by its "
    "address, name this host in MATH_REWARD_ALLOWED_HOSTS, or set MATH_REWARD_TOKEN."
)

PROTECTED_PATHS = frozenset({"/v1/recent"})
"""Paths that are checked whatever the method: they show what others sent."""

_CLOSE = {"Connection": "close"}  # The rest of the body may still come; nobody reads it.


class AuthAndLimits:
    """ASGI middleware that checks each POST and each request for one of ``PROTECTED_PATHS``.

    Such a request needs the token; where no token is set, it needs a Host header that no other site's page can have.
    It is refused while the service drains, and when its body is too long or too slow. Then it waits for its turn.

    The bodies of all requests under way have a limit together, counted as they arrive and until they are answered:
    what a client only says it will send takes nobody's room.

    Middleware and no dependency of the routes, since FastAPI reads and parses the body before it asks a dependency.
    """

    def __init__(self, app: ASGIApp, settings: Settings, lifecycle: Lifecycle) -> None:
        self._app = app
        token = settings.bearer_token
        self._token = None if token is None else token.encode()
        self._host_names = settings.host_names
        self._max_body_bytes = settings.max_body_bytes
        self._max_pending_bytes = settings.max_pending_bytes
        self._body_seconds = settings.body_seconds
        self._lifecycle = lifecycle
        self._pending_bytes = 0
        self._throttle = RequestThrottle()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not (scope["method"] == "POST" or scope["path"] in PROTECTED_PATHS):
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        refusal = self._refusal(headers)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        body = _Body()
        self._lifecycle.in_flight += 1
        try:
            await self._throttle.turn()
            await self._app(scope, self._limited(receive, headers, body), send)
        finally:
            self._lifecycle.in_flight -= 1
            self._pending_bytes -= body.received

    def _refusal(self, headers: dict[bytes, bytes]) -> JSONResponse | None:
        if self._token is not None and not _has_token(headers.get(b"authorization", b""), self._token):
            return JSONResponse(
                {"detail": "This service needs its token: send the header 'Authorization: Bearer <token>'."},
                status_code=401,
                headers={"WWW-Authenticate": "Bearer"},
            )
        if self._token is None and not is_own_name(headers.get(b"host", b""), self._host_names):
            return JSONResponse({"detail": WRONG_HOST}, status_code=421)
        if self._lifecycle.draining:
            return JSONResponse({"detail": DRAINING}, status_code=503, headers={"Retry-After": "1"})
        return None

    def _limited(self, receive: Receive, headers: dict[bytes, bytes], body: "_Body") -> Receive:
        """``receive``, but a body that is too long or too slow, or one too many, raises HTTPException."""
        declared = headers.get(b"content-length", b"0")
        too_long = declared.isdigit() and len(declared) < 20 and int(declared) > self._max_body_bytes
        due = anyio.current_time() + self._body_seconds

        async def receive_within_limits() -> Message:
            if body.complete:
                return await receive()
            try:
                with anyio.fail_after(due - anyio.current_time()):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(
                    408, f"The body did not arrive within {self._body_seconds:g} s.", headers=_CLOSE
                ) from None
            size = len(message.get("body", b""))
            body.received += size
            self._pending_bytes += size
            body.complete = not message.get("more_body", False)
            if too_long or body.received > self._max_body_bytes:
                raise HTTPException(
                    413,
                    f"The body has more than the {self._max_body_bytes:,} bytes that are allowed: send fewer items.",
                    headers=_CLOSE,
                )
            if self._pending_bytes > self._max_pending_bytes:
                raise HTTPException(
                    429,
                    f"The requests under way have more than the {self._max_pending_bytes:,} bytes that are allowed "
                    "together: try again in 1 s.",
                    headers={**_CLOSE, "Retry-After": "1"},
                )
            return message

        return receive_within_limits


class _Body:
    """How much of a request's body has come."""

    received = 0
    complete = False


def _has_token(header: bytes, token: bytes) -> bool:
    """Whether an Authorization header has the token. The name of the scheme may be written in any case."""
    scheme, _, given = header.partition(b" ")
    return hmac.compare_digest(given.strip(b" "), token) and scheme.lower() == b"bearer"
