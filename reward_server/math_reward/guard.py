"""What a request must pass before anything of it is read: the bearer token and the size limit."""

import hmac

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Guard:
    """ASGI middleware: every POST needs the token, where there is one, and a body within the limit.

    Middleware and no dependency of the routes, since FastAPI reads and parses the body before it asks a dependency.
    """

    def __init__(self, app: ASGIApp, token: str | None, max_body_bytes: int) -> None:
        self._app = app
        self._expected = None if token is None else f"Bearer {token}".encode()
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return

        headers = dict(scope["headers"])
        if self._expected is not None and not hmac.compare_digest(headers.get(b"authorization", b""), self._expected):
            refusal = JSONResponse(
                {"detail": "This service needs its token: send the header 'Authorization: Bearer <token>'."},
                status_code=401,
                headers={"WWW-Authenticate": "Bearer"},
            )
            await refusal(scope, receive, send)
            return

        declared = headers.get(b"content-length", b"0")
        too_long = declared.isdigit() and int(declared) > self._max_body_bytes
        received = 0

        async def receive_within_the_limit() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if too_long or received > self._max_body_bytes:
                raise HTTPException(
                    413,
                    f"The body has more than the {self._max_body_bytes:,} bytes that are allowed: send fewer items.",
                )
            return message

        await self._app(scope, receive_within_the_limit, send)
