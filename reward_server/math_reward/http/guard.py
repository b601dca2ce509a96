"""What every request passes: the table of routes, the token, the limits of bodies and answers, draining; the request
id, the metrics, the log."""

import asyncio
import hashlib
import hmac
import json
import logging
import re
import time
import uuid
from collections.abc import Mapping
from datetime import datetime, timezone

import anyio
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from math_reward.http.lifecycle import Lifecycle
from math_reward.http.log import Log
from math_reward.http.metrics import Metrics
from math_reward.http.problems import HUNG_UP, Refused
from math_reward.http.requests import Unusable
from math_reward.http.routes import OTHER, TABLE, Endpoint, Route
from math_reward.nearest import did_you_mean
from math_reward.settings import Settings

logger = logging.getLogger(__name__)

DRAINING = "The service is draining: it is about to stop and takes no new requests."
STOPPED = "The service stops: the request was not answered within --drain-seconds."
NO_TOKEN = "This service needs its token: send the header 'Authorization: Bearer <token>'."
WRONG_TOKEN = "This service needs its token, not this one: send the header 'Authorization: Bearer <token>'."

BODY = "math_reward.body"
"""The scope's name of a POST's whole body."""

HEAD_BYTES = 32_768
"""How large the head of a request may be."""

PIECE_BYTES = 65_536
"""A longer answer is sent in pieces: each waits until the client has taken the one before."""

SKIP_SECONDS = 1.0
"""How long the body of a refused request is read, and dropped, before the answer: a client that is cut off while it
sends would see a broken connection, and not the sentence."""

CLOSE = {"Connection": "close"}
"""For a refusal before the body was read: the rest may still come, and nobody will read it."""

_REQUEST_ID = re.compile(rb"[!-~]{1,128}")


class Guard:
    """The ASGI application in front of the endpoints. It answers the routes of TABLE that have an endpoint, and no
    others. Where a token is set a request needs it, unless the table says that its route is open. While the service
    drains a POST is refused.

    It reads the whole body of a POST, within the limits on its size and time, before an endpoint sees the request, and
    gives it to the endpoint as ``scope[BODY]``. The bodies and answers of all requests under way have a limit
    together: a body counts as it arrives, until there is an answer, which counts until it is sent. What is only
    announced takes no room from others.

    An answer has the request's X-Request-ID, if that is at most 128 printable ASCII characters without spaces; else it
    has a new one.
    """

    def __init__(
        self, endpoints: Mapping[str, Endpoint], settings: Settings, lifecycle: Lifecycle, metrics: Metrics, log: Log
    ) -> None:
        self._routes = {(row.method, row.path): (row, endpoints[row.path]) for row in TABLE if row.path in endpoints}
        # Digests have the same length, so the time of a comparison does not depend on a token's.
        self._digests = [_digest(token.encode()) for token in settings.tokens]
        self._settings = settings
        self._lifecycle = lifecycle
        self._metrics = metrics
        self._log = log
        self._total = _Total()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request. Everything but HTTP is ignored."""
        if scope["type"] != "http":
            return
        start, status = time.perf_counter(), HUNG_UP
        method, is_post = scope["method"], scope["method"] == "POST"
        request_id = _request_id(scope["headers"])
        route, endpoint = self._routes.get(("GET" if method == "HEAD" else method, scope["path"]), (None, None))
        held = _Held(self._total)
        self._lifecycle.in_flight += is_post
        try:
            answer = await self._answer(Request(scope, receive), route, endpoint, held)
            status = answer.status_code
            held.set(len(answer.body))
            scope.pop(BODY, None)
            await _send(answer, request_id, method != "HEAD", send)
        except asyncio.CancelledError:
            pass  # The service stops, and the client has not taken the answer in time.
        finally:
            held.set(0)
            self._lifecycle.in_flight -= is_post
            self._tell(scope, request_id, route, status, time.perf_counter() - start)

    @property
    def send_seconds(self) -> float:
        """How long a client may take nothing of an answer: as long as its body might have taken to arrive."""
        return self._settings.body_seconds

    def unreadable(self, client: tuple[str, int] | None) -> tuple[bytes, Response]:
        """The id of a request that is no HTTP, and the refusal. It is counted and logged as any other."""
        request_id = _request_id([])
        self._tell({"client": client, "method": None, "path": None}, request_id, None, 400, 0.0)
        return request_id, Refused(400, "This is no HTTP request, or its head is too large.", CLOSE).answer()

    def _tell(self, scope: Scope, request_id: bytes, route: Route | None, status: int, seconds: float) -> None:
        """Counts and logs a request that was answered."""
        self._metrics.request(OTHER if route is None else route.label, status, seconds)
        if self._settings.access_log and not (route is not None and route.probed and status < 400):
            line = {
                "time": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
                "request_id": request_id.decode(),
                "client": scope["client"][0] if scope["client"] else None,
                "method": scope["method"],
                "path": scope["path"],
                "status": status,
                "seconds": round(seconds, 6),
            }
            self._log.write(json.dumps(line))

    async def _answer(
        self, request: Request, route: Route | None, endpoint: Endpoint | None, held: "_Held"
    ) -> Response:
        """The endpoint's answer, or a refusal."""
        scope = request.scope
        try:
            try:
                self._check_head(scope)
                if route is None or endpoint is None:
                    raise self._no_route(scope)
                if route.token:
                    self._check_token(request)
                if scope["method"] == "POST" and self._lifecycle.draining:
                    raise Refused(503, DRAINING, {"Retry-After": "1"})
            except Refused as refusal:
                await self._skip_body(request)
                raise Refused(refusal.status, refusal.detail, {**(refusal.headers or {}), **CLOSE}) from None
            if scope["method"] == "POST":
                scope[BODY] = await self._read(request.receive, held)
            parameters = {} if endpoint.parameters is None else dict(request.query_params)
            for name in parameters:
                if name not in (endpoint.parameters or ()):
                    has = " and ".join(endpoint.parameters or ()) or "none"
                    raise Refused(422, f"There is no parameter {name[:40]!r}: the route has {has}.")
            return await endpoint.call(request, **parameters)
        except Refused as refusal:
            return refusal.answer()
        except Unusable as error:
            return Refused(error.status, str(error)).answer()
        except asyncio.CancelledError:  # uvicorn does not wait for it any longer
            return Refused(503, STOPPED, {"Retry-After": "1", **CLOSE}).answer()
        except Exception:
            logger.exception("A request failed: %s %s", scope["method"], scope["path"])
            return Refused(500, "The service failed: its log says why.").answer()

    def _check_head(self, scope: Scope) -> None:
        """Raises Refused where the head is too large. h11 looks at what has come of a head that is not whole."""
        size = len(scope.get("raw_path") or b"") + len(scope["query_string"])
        if size + sum(len(name) + len(value) + 4 for name, value in scope["headers"]) > HEAD_BYTES:
            raise Refused(431, f"The head of the request has more than the {HEAD_BYTES:,} bytes that are allowed.")

    def _no_route(self, scope: Scope) -> Refused:
        """Why there is no such route: another method, or another path."""
        method, path = scope["method"], scope["path"][:100]
        if others := [known for known, its_path in self._routes if its_path == scope["path"]]:
            return Refused(405, f"{path} takes {' and '.join(others)}, not {method}.", {"Allow": ", ".join(others)})
        known = [" ".join(key) for key in self._routes]
        meant = did_you_mean(f"{method} {path}", known, "GET /openapi.json has what there is")
        return Refused(404, f"There is no {method} {path}{meant}")

    def _check_token(self, request: Request) -> None:
        """Raises Refused where a token is set and the request has none of them."""
        authorization = request.headers.get("authorization", "").encode("latin-1")
        scheme, _, given = authorization.partition(b" ")
        digest = _digest(given.strip(b" "))
        known = [one for one in self._digests if hmac.compare_digest(one, digest)]  # all, whichever it is
        if self._digests and not (known and scheme.lower() == b"bearer"):
            raise Refused(401, WRONG_TOKEN if authorization else NO_TOKEN, {"WWW-Authenticate": "Bearer"})

    async def _skip_body(self, request: Request) -> None:
        """Reads and drops the body of a refused request, within reason. A client that waits to be told to send it
        need not."""
        left, more = self._settings.max_body_bytes, "expect" not in request.headers
        with anyio.move_on_after(SKIP_SECONDS):
            while more and left > 0:
                message = await request.receive()
                left -= len(message.get("body", b""))
                more = message.get("more_body", False)

    async def _read(self, receive: Receive, held: "_Held") -> bytearray:
        """Reads the whole body. Raises Refused where it is beyond a limit.

        A body that is too big is read on and dropped, within reason, as that of a refused request.
        """
        settings, received, more, body = self._settings, 0, True, bytearray()
        try:
            with anyio.fail_after(settings.body_seconds):
                while more and received <= settings.max_pending_bytes:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refused(HUNG_UP, "The client has hung up.")
                    chunk = message.get("body", b"")
                    more = message.get("more_body", False)
                    received += len(chunk)
                    if received > settings.max_body_bytes:
                        continue
                    body += chunk
                    held.set(len(body))
                    if self._total.bytes > settings.max_pending_bytes:
                        raise _too_many_bytes(settings.max_pending_bytes)
        except TimeoutError:
            said = f"The body did not arrive within {settings.body_seconds:g} s: send it faster, or fewer items."
            raise Refused(408, said, CLOSE) from None
        if received > settings.max_body_bytes:
            said = f"The body has more than the {settings.max_body_bytes:,} bytes that are allowed: send fewer items."
            raise Refused(413, said, CLOSE)
        return body


async def _send(answer: Response, request_id: bytes, with_body: bool, send: Send) -> None:
    """Sends an answer; returns when the client has taken it, or all but what the connection holds of a short one."""
    headers = [*answer.raw_headers, (b"x-request-id", request_id)]
    await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})
    body = bytes(answer.body) if with_body else b""
    if len(body) > PIECE_BYTES:
        for begin in range(0, len(body), PIECE_BYTES):
            await send({"type": "http.response.body", "body": body[begin : begin + PIECE_BYTES], "more_body": True})
        body = b""
    await send({"type": "http.response.body", "body": body})


class _Held:
    """The bytes that one request holds, of those that all may hold together."""

    def __init__(self, total: "_Total") -> None:
        self._total, self._bytes = total, 0

    def set(self, count: int) -> None:
        """So many from now on."""
        self._total.bytes += count - self._bytes
        self._bytes = count


class _Total:
    """The bytes that all requests under way hold."""

    bytes = 0


def _request_id(headers: list[tuple[bytes, bytes]]) -> bytes:
    given = dict(headers).get(b"x-request-id", b"")
    return given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex.encode()


def _too_many_bytes(limit: int) -> Refused:
    said = f"The requests under way have more than the {limit:,} bytes that are allowed together: try again in 1 s."
    return Refused(429, said, {**CLOSE, "Retry-After": "1"})


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
