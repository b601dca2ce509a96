"""Records every request and its answer: request id, metrics, access log."""

import re
import time
import uuid

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from math_reward.http.metrics import Metrics
from math_reward.http.middleware.access_log import AccessLog

PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
"""Asked every few seconds for ever; the access log has them only when they fail."""

ROUTES = PROBES | {"/", "/v1/grade", "/get_reward", "/v1/explain", "/v1/recent", "/openapi.json"}
"""The paths that metrics tell apart; anybody can ask for others, and each would be a time series."""

_REQUEST_ID = re.compile(rb"[!-~]{1,128}")


class Telemetry:
    """ASGI middleware; the outermost, so that refusals are seen too.

    The request's X-Request-ID goes back with the answer where it is up to 128 printable ASCII characters without
    spaces; else the answer has one that was made up.
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
        status = 500  # What the client gets where the application raises.
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
            self._metrics.request(path if path in ROUTES else "other", status, seconds)
            if self._access_log and not (path in PROBES and status < 400):
                self._access_log.write(
                    request_id=request_id.decode(),
                    client=scope["client"][0] if scope["client"] else None,
                    method=scope["method"],
                    path=path,
                    status=status,
                    seconds=round(seconds, 6),
                )
