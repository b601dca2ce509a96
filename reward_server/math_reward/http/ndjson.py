"""Streams of rows, a JSON object a line: which requests are one, and what a layer hands to the next with its scope."""

from starlette.types import Scope

MEDIA_TYPE = "application/x-ndjson"
PATH = "/v1/grade"

LINE_LIMITS = "math_reward.line_limits"
"""The scope's ``LineLimits``, through which the route reads the lines."""

CONNECTION = "math_reward.connection"
"""The scope's connection, with ``close``, ``abort`` and ``unsent``. Only ``math-reward serve`` sets it."""

OUTCOME = "math_reward.outcome"
"""The status that metrics and access log have in place of the one that was sent first: how the answer ended."""


def is_stream(scope: Scope) -> bool:
    """Whether a request's body is a stream of rows to grade."""
    if scope["type"] != "http" or scope["path"] != PATH or scope["method"] != "POST":
        return False
    given = next((value for name, value in scope["headers"] if name == b"content-type"), b"")
    return given.partition(b";")[0].strip().lower() == MEDIA_TYPE.encode()
