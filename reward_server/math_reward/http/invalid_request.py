"""Answers a request that cannot be read: status 422 and one sentence."""

from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse


async def invalid_request(_: Request, error: Exception) -> JSONResponse:
    """Exception handler: status 422 and one sentence that names the first faulty item and field."""
    assert isinstance(error, RequestValidationError)
    reasons = error.errors()
    more = f" The request has {len(reasons)} such faults." if len(reasons) > 1 else ""
    return JSONResponse({"detail": sentence_of(reasons[0]) + more}, status_code=422)


def sentence_of(reason: Any) -> str:
    """One of pydantic's reasons as a sentence that names the item and the field, but does not repeat the input. Its
    place begins with "body".
    """
    message = reason["msg"].removeprefix("Value error, ").removesuffix("?")
    end = "?" if reason["msg"].endswith("?") else "."
    path = reason["loc"][1:]  # The first is "body".
    if reason["type"] == "json_invalid":
        return f"The body is not JSON: {reason['ctx']['error']} at character {path[0]}."
    index = next((part for part in path if isinstance(part, int)), None)
    names = [part for part in path if isinstance(part, str)]
    if not names:
        if reason["type"] == "value_error":
            return f"{message}{end}"
        return "The body must be a JSON object, sent with Content-Type: application/json."
    # ("items", 3, "reference") is a field of item 3, ("labels", 3) is entry 3 of a field.
    if path[0] == "items" and index is not None:
        field = f", field {'.'.join(names[1:])!r}" if len(names) > 1 else ""
        return f"Item {index}{field}: {message[0].lower()}{message[1:]}{end}"
    where = f"Field {'.'.join(names)!r}" + ("" if index is None else f", item {index}")
    return f"{where}: {message[0].lower()}{message[1:]}{end}"
