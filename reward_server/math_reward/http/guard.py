"""What stands before the routes: the token, the limits of bodies, draining; the request id, the metrics, the log."""

import asyncio
import contextlib
import hashlib
import hmac
import json
import re
import sys
import time
import uuid
from datetime import datetime, timezone

import anyio
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from math_reward.http.lifecycle import Lifecycle
from math_reward.http.metrics import Metrics
from math_reward.settings import Settings

DRAINING = "The service is draining: it is about to stop and takes no new requests."
STOPPED = "The service stops: the request was not answered within --drain-seconds."
NO_TOKEN = "This service needs its token: send the header 'Authorization: Bearer <token>'."
WRONG_TOKEN = "This service needs its token, not this one: send the header 'Authorization: Bearer <token>'."

BODY = "math_reward.body"
"""The scope's name of a POST's whole body."""

PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
"""Paths that monitors ask every few seconds; the access log has them only when they fail."""

ROUTES = PROBES | {"/", "/v1/grade", "/get_reward", "/v1/explain", "/openapi.json"}
"""The paths with a time series of their own. All others share one, since anybody can ask for any path."""

_REQUEST_ID = re.compile(rb"[!-~]{1,128}")
_CLOSE = {"Connection": "close"}  # The rest of the body may still come, and nobody will read it.


class Guard:
    """ASGI middleware. Each POST needs the token, if one is set, and is refused while the service drains.

    It reads the whole body of a POST, within the limits on its size and time, before a route sees the request, and
    gives it to the route as ``scope[BODY]``. The bodies of all requests under way have a limit together: a body counts
    as it arrives, until its request is answered, so that one that is only announced takes no room from others.

    An answer has the request's X-Request-ID, if that is at most 128 printable ASCII characters without spaces; else it
    has a new one.
    """

    def __init__(self, app: ASGIApp, settings: Settings, lifecycle: Lifecycle, metrics: Metrics) -> None:
        self._app = app
        # Digests have the same length, so the time of a comparison does not depend on a token's.
        self._digests = [_digest(token.encode()) for token in settings.tokens]
        self._settings = settings
        self._lifecycle = lifecycle
        self._metrics = metrics
        self._pending = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        status = 500  # The client gets this if the application raises an exception.
        headers = dict(scope["headers"])
        given = headers.get(b"x-request-id", b"")
        request_id = given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex.encode()

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", request_id)]
            await send(message)

        try:
            if scope["method"] == "POST":
                await self._post(scope, headers, receive, send_with_id)
            else:
                await self._app(scope, receive, send_with_id)
        finally:
            seconds, path = time.perf_counter() - start, scope["path"]
            self._metrics.request(path if path in ROUTES else "other", status, seconds)
            if self._settings.access_log and not (path in PROBES and status < 400):
                line = {
                    "time": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
                    "request_id": request_id.decode(),
                    "client": scope["client"][0] if scope["client"] else None,
                    "method": scope["method"],
                    "path": path,
                    "status": status,
                    "seconds": round(seconds, 6),
                }
                with contextlib.suppress(OSError):  # nobody reads standard error any more
                    print(json.dumps(line), file=sys.stderr, flush=True)

    async def _post(self, scope: Scope, headers: dict[bytes, bytes], receive: Receive, send: Send) -> None:
        body = bytearray()
        self._lifecycle.in_flight += 1
        try:
            self._refuse(headers.get(b"authorization", b""))
            await self._read(receive, body)
            scope[BODY] = body
            await self._app(scope, receive, send)
        except HTTPException as refusal:
            await JSONResponse({"detail": refusal.detail}, refusal.status_code, refusal.headers)(scope, receive, send)
        except asyncio.CancelledError:  # uvicorn does not wait for it any longer
            await JSONResponse({"detail": STOPPED}, 503, {"Retry-After": "1", **_CLOSE})(scope, receive, send)
        finally:
            self._pending -= len(body)
            self._lifecycle.in_flight -= 1

    def _refuse(self, authorization: bytes) -> None:
        """Raises HTTPException where the token is not valid, or the service drains."""
        scheme, _, given = authorization.partition(b" ")
        digest = _digest(given.strip(b" "))
        known = [one for one in self._digests if hmac.compare_digest(one, digest)]  # all, whichever it is
        if self._digests and not (known and scheme.lower() == b"bearer"):
            raise HTTPException(401, WRONG_TOKEN if authorization else NO_TOKEN, {"WWW-Authenticate": "Bearer"})
        if self._lifecycle.draining:
            raise HTTPException(503, DRAINING, {"Retry-After": "1"})

    async def _read(self, receive: Receive, body: bytearray) -> None:
        """Reads the whole body. Raises HTTPException where it is beyond a limit.

        A body that is too big is read on and dropped, within reason: a client that is cut off while it sends would see
        a broken connection, and not the sentence.
        """
        settings, received, more = self._settings, 0, True
        try:
            with anyio.fail_after(settings.body_seconds):
                while more and received <= settings.max_pending_bytes:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise HTTPException(499, "The client has hung up.")
                    chunk = message.get("body", b"")
                    more = message.get("more_body", False)
                    received += len(chunk)
                    if received > settings.max_body_bytes:
                        continue
                    body += chunk
                    self._pending += len(chunk)
                    if self._pending > settings.max_pending_bytes:
                        raise _too_many_bytes(settings.max_pending_bytes)
        except TimeoutError:
            said = f"The body did not arrive within {settings.body_seconds:g} s: send it faster, or fewer items."
            raise HTTPException(408, said, _CLOSE) from None
        if received > settings.max_body_bytes:
            said = f"The body has more than the {settings.max_body_bytes:,} bytes that are allowed: send fewer items."
            raise HTTPException(413, said, _CLOSE)


def _too_many_bytes(limit: int) -> HTTPException:
    said = f"The requests under way have more than the {limit:,} bytes that are allowed together: try again in 1 s."
    return HTTPException(429, said, {**_CLOSE, "Retry-After": "1"})


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
