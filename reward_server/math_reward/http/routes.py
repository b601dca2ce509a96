"""Every route of the service, in one table: the guard answers no other, and the OpenAPI document is made from it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from starlette.responses import Response


class Route(NamedTuple):
    """One row of the table."""

    method: str
    path: str
    token: bool
    """Whether it needs the token, where one is set."""
    label: str
    """Its time series in ``/metrics``."""
    text: str
    """What it is for, in the OpenAPI document."""
    probed: bool = False
    """Whether monitors ask it every few seconds: the access log has it only when it fails."""


TABLE = (
    Route("POST", "/v1/grade", True, "/v1/grade", "Grade completions"),
    Route("POST", "/get_reward", True, "/get_reward", "Rewards by OpenRLHF's protocol"),
    Route("POST", "/v1/explain", True, "/v1/explain", "A grade with the rule that decided"),
    Route("GET", "/", False, "/", "The page that explains a verdict"),
    Route("GET", "/page.css", False, "/", "The page's style"),
    Route("GET", "/page.js", False, "/", "The page's script"),
    Route("GET", "/healthz", False, "/healthz", "The process is up", probed=True),
    Route("GET", "/readyz", False, "/readyz", "Workers grade known answers as expected", probed=True),
    Route("GET", "/metrics", False, "/metrics", "Metrics in Prometheus' text format", probed=True),
    Route("GET", "/openapi.json", False, "/openapi.json", "The OpenAPI document"),
    Route("GET", "/docs", False, "/docs", "FastAPI's page of the routes, where no token is set"),
)

OTHER = "other"
"""The time series of all other paths: anybody can ask for any."""


@dataclass(frozen=True)
class Endpoint:
    """What answers a route.

    Args:
        call: from the request, and its query parameters by name, to the answer. A POST's body is in the scope.
        parameters: the query parameters that it knows; None: it takes any and reads none. An unknown one is refused:
            otherwise a mistyped one would have no effect.
        documentation: arguments of FastAPI's ``add_api_route``; None: the OpenAPI document does not have the route.
    """

    call: Callable[..., Awaitable[Response]]
    parameters: tuple[str, ...] | None = None
    documentation: Mapping[str, Any] | None = None


Endpoints = dict[str, Endpoint]
"""By their path."""
