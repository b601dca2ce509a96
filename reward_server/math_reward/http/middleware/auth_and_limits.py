"""Checks a request before and while its body arrives: token or host name, size, total size of all requests, time."""

import anyio
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from math_reward.http.lifecycle import Lifecycle
from math_reward.http.middleware.host_check import is_own_name
from math_reward.http.middleware.line_limits import LineLimits
from math_reward.http.middleware.pending_bytes import PendingBytes
from math_reward.http.middleware.request_throttle import RequestThrottle
from math_reward.http.middleware.unread_answers import as_it_is_read
from math_reward.http.ndjson import LINE_LIMITS, is_stream
from math_reward.settings import Settings
from math_reward.tokens import Tokens

DRAINING = "The service is draining: it is about to stop and takes no new requests."
STOPPED = "The service stops: the request was not answered within --drain-seconds."
NO_TOKEN = "This service needs its token: send the header 'Authorization: Bearer <token>'."
WRONG_TOKEN = "This service needs its token, not this one: send the header 'Authorization: Bearer <token>'."

WRONG_HOST = (
    "This service has no token, so it does not answer to a host name that another site could have: use its address, "
    "add this name to MATH_REWARD_ALLOWED_HOSTS, or set MATH_REWARD_TOKEN."
)

SEVERAL_HOSTS = "The request has more than one Host header: send one."

PROTECTED_PATHS = frozenset({"/v1/recent"})
"""Paths that are checked for every method, since they show what others sent."""

TOKEN_NAME = "math_reward.token_name"
"""The scope's name of the token that a request has; absent where it has none, or one without a name."""

_CLOSE = {"Connection": "close"}  # The rest of the body may still come, and nobody will read it.


class AuthAndLimits:
    """ASGI middleware that limits how long an answer may stay unread, and checks each POST and each request for one of
    ``PROTECTED_PATHS``.

    Such a request needs the token or, if no token is set, a Host header that no page of another site can send. It is
    refused while the service drains, and if its body is too long or too slow. Then it waits for its turn.

    A stream of rows has these limits for each line, see ``LineLimits`` and ``math_reward.http.routes.stream``.

    The bodies of all requests under way have a limit together. A body counts as it arrives, until its request is
    answered: a client that only announces a large body takes no room from others. So do answers until they are read.

    This is middleware and not a dependency of the routes, because FastAPI parses the body before it asks a dependency.
    """

    def __init__(self, app: ASGIApp, settings: Settings, lifecycle: Lifecycle, tokens: Tokens) -> None:
        self._app = app
        self._tokens = tokens
        self._host_names = settings.host_names
        self._max_body_bytes = settings.max_body_bytes
        self._body_seconds = settings.body_seconds
        self._lifecycle = lifecycle
        self._pending = PendingBytes(settings.max_pending_bytes)
        self._throttle = RequestThrottle()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = _refusal_of_hosts(scope)
        checked = scope["method"] == "POST" or scope["path"] in PROTECTED_PATHS
        headers = dict(scope["headers"])
        if refusal is None and checked:
            refusal = self._refusal(scope, headers)
        if refusal is not None or not checked:
            # What anybody may ask for takes no room from others; it is short.
            await (refusal or self._app)(scope, receive, as_it_is_read(scope, send, None, self._body_seconds))
            return
        send = as_it_is_read(scope, send, self._pending, self._body_seconds)
        body = _Body()
        lines = LineLimits(receive, self._body_seconds, self._pending)
        self._lifecycle.in_flight += 1
        try:
            await self._throttle.turn()
            if is_stream(scope):
                scope[LINE_LIMITS] = lines
                await self._app(scope, lines.receive, send)
            else:
                await self._app(scope, self._limited(receive, headers, body), send)
        finally:
            self._lifecycle.in_flight -= 1
            self._pending.count -= body.received
            lines.release_all()

    def _refusal(self, scope: Scope, headers: dict[bytes, bytes]) -> JSONResponse | None:
        valid, name = self._tokens.owner(headers.get(b"authorization", b""))
        if name is not None:
            scope[TOKEN_NAME] = name
        if self._tokens.needed and not valid:
            detail = WRONG_TOKEN if headers.get(b"authorization") else NO_TOKEN
            return JSONResponse({"detail": detail}, status_code=401, headers={"WWW-Authenticate": "Bearer"})
        if not self._tokens.needed and not is_own_name(headers.get(b"host", b""), self._host_names):
            return JSONResponse({"detail": WRONG_HOST}, status_code=421)
        if self._lifecycle.draining:
            return JSONResponse({"detail": DRAINING}, status_code=503, headers={"Retry-After": "1"})
        return None

    def _limited(self, receive: Receive, headers: dict[bytes, bytes], body: "_Body") -> Receive:
        """``receive``, but it raises HTTPException if the body is too long or slow, or all bodies are too large."""
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
                    408,
                    f"The body did not arrive within {self._body_seconds:g} s: send it faster, or fewer items.",
                    headers=_CLOSE,
                ) from None
            size = len(message.get("body", b""))
            body.received += size
            self._pending.count += size
            body.complete = not message.get("more_body", False)
            if too_long or body.received > self._max_body_bytes:
                raise HTTPException(
                    413,
                    f"The body has more than the {self._max_body_bytes:,} bytes that are allowed: send fewer items.",
                    headers=_CLOSE,
                )
            if self._pending.too_many:
                raise self._pending.refusal(**_CLOSE)
            return message

        return receive_within_limits


def _refusal_of_hosts(scope: Scope) -> JSONResponse | None:
    """Of a request with two Host headers: a proxy in front of the service may have believed the other one."""
    if sum(name == b"host" for name, _ in scope["headers"]) > 1:
        return JSONResponse({"detail": SEVERAL_HOSTS}, status_code=400, headers=_CLOSE)
    return None


class _Body:
    """How much of a request's body has arrived."""

    received = 0
    complete = False
