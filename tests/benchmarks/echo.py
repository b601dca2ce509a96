"""What a post costs at the least on the service's transport; `service_load.py` starts it beside the service."""

from typing import Any


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Sends a request's body back, as JSON."""
    if scope["type"] != "http":
        return
    body, more = b"", True
    while more:
        event = await receive()
        body, more = body + event.get("body", b""), event.get("more_body", False)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
