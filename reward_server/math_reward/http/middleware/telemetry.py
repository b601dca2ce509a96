"""Records every request and its answer: the request id, the metrics, the access log."""

import re
import time
import uuid

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from math_reward.http.metrics import Metrics
from math_reward.http.middleware.access_log import AccessLog
from math_reward.http.middleware.auth_and_limits import TOKEN_NAME
from math_reward.http.ndjson import OUTCOME, is_stream

PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
"""Paths that monitors ask every few seconds; the access log has them only when they fail."""

ROUTES = PROBES | {"/", "/v1/grade", "/get_reward", "/v1/explain", "/v1/recent", "/openapi.json"}
"""The paths with a time series of their own. All others share one, since anybody can ask for any path."""

STREAM = "/v1/grade stream"
"""The time series of streams, which last as long as their clients have rows."""

_REQUEST_ID = re.compile(rb"[!-~]{1,128}")


class Telemetry:
    """The outermost ASGI middleware, so that it sees refusals too.

    The answer has the request's X-Request-ID, if that is at most 128 printable ASCII characters without spaces; else
    it has a new one.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, access_log: AccessLog | None) -> None:
        self._app = app
        self._metrics = metrics
        self._access_log = access_log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        status = 500  # The client gets this if the application raises an exception.
        given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
        request_id = given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex.encode()

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", request_id)]
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        finally:
            seconds = time.perf_counter() - start
            path = scope["path"]
            status = scope.get(OUTCOME, status)
            route = STREAM if is_stream(scope) else path if path in ROUTES else "other"
            name = scope.get(TOKEN_NAME)
            self._metrics.request(route, status, seconds, name)
            if self._access_log and not (path in PROBES and status < 400):
                self._access_log.write(
                    request_id=request_id.decode(),
                    client=scope["client"][0] if scope["client"] else None,
                    method=scope["method"],
                    path=path,
                    status=status,
                    seconds=round(seconds, 6),
                    **({} if name is None else {"token": name}),
                )
