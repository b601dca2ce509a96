"""Answers a request that cannot be used: status 422 and one sentence."""

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse


async def unusable(_: Request, error: Exception) -> JSONResponse:
    """Exception handler for ``Unusable``, which has the sentence."""
    return JSONResponse({"detail": str(error)}, status_code=422)


async def invalid_parameter(_: Request, error: Exception) -> JSONResponse:
    """Exception handler for parameters of the URL, which FastAPI reads."""
    assert isinstance(error, RequestValidationError)
    reason = error.errors()[0]
    said = reason["msg"]
    detail = f"Parameter {reason['loc'][-1]!r}: {said[0].lower()}{said[1:]}."
    return JSONResponse({"detail": detail}, status_code=422)
