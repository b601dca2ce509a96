"""What a request must pass before anything of it is read: the token, the size limit, and that it comes in time."""

import hmac

import anyio
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from math_reward.lifecycle import Lifecycle
from math_reward.turnstile import Turnstile

DRAINING = "The service is draining: it stops and takes no new work."

GUARDED = frozenset({"/v1/recent"})
"""Paths that are guarded whatever the method: they show what others sent."""

_CLOSE = {"Connection": "close"}  # The rest of the body may still come; nobody reads it.


class Guard:
    """ASGI middleware: a POST, and whatever asks for what is ``GUARDED``, needs the token, where there is one, a
    service that is not draining, and a body within the limits on size and time; then it waits for its turn.

    Middleware and no dependency of the routes, since FastAPI reads and parses the body before it asks a dependency.
    """

    def __init__(
        self, app: ASGIApp, token: str | None, max_body_bytes: int, body_seconds: float, lifecycle: Lifecycle
    ) -> None:
        self._app = app
        self._expected = None if token is None else f"Bearer {token}".encode()
        self._max_body_bytes = max_body_bytes
        self._body_seconds = body_seconds
        self._lifecycle = lifecycle
        self._turnstile = Turnstile()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not (scope["method"] == "POST" or scope["path"] in GUARDED):
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        refusal = self._refusal(headers)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        self._lifecycle.in_flight += 1
        try:
            await self._turnstile.turn()
            await self._app(scope, self._limited(receive, headers), send)
        finally:
            self._lifecycle.in_flight -= 1

    def _refusal(self, headers: dict[bytes, bytes]) -> JSONResponse | None:
        if self._expected is not None and not hmac.compare_digest(headers.get(b"authorization", b""), self._expected):
            return JSONResponse(
                {"detail": "This service needs its token: send the header 'Authorization: Bearer <token>'."},
                status_code=401,
                headers={"WWW-Authenticate": "Bearer"},
            )
        if self._lifecycle.draining:
            return JSONResponse({"detail": DRAINING}, status_code=503, headers={"Retry-After": "1"})
        return None

    def _limited(self, receive: Receive, headers: dict[bytes, bytes]) -> Receive:
        """``receive``, but a body that is too long or too slow raises HTTPException."""
        declared = headers.get(b"content-length", b"0")
        too_long = declared.isdigit() and int(declared) > self._max_body_bytes
        received = 0
        complete = False
        due = anyio.current_time() + self._body_seconds

        async def receive_within_limits() -> Message:
            nonlocal received, complete
            if complete:
                return await receive()
            try:
                with anyio.fail_after(due - anyio.current_time()):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(
                    408, f"The body did not arrive within {self._body_seconds:g} s.", headers=_CLOSE
                ) from None
            received += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if too_long or received > self._max_body_bytes:
                raise HTTPException(
                    413,
                    f"The body has more than the {self._max_body_bytes:,} bytes that are allowed: send fewer items.",
                    headers=_CLOSE,
                )
            return message

        return receive_within_limits
