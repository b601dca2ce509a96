"""One request to a service over HTTP: its connections, and what goes wrong on the way as an error."""

import asyncio
from collections.abc import Sequence

import httpx

from math_reward.client.endpoints import Endpoint
from math_reward.client.errors import Cause, Refused, Unavailable
from math_reward.client.protocols import Item, Outcome, body, refusal
from math_reward.client.settings import Settings, trusted

CONNECT_TIMEOUT = 5.0
"""Seconds; a host that drops packets must not cost the whole timeout of a request."""

KEEPALIVE = 1.0
"""Seconds; shorter than services keep idle connections, so that none is closed during a request."""


class Connections:
    """The connections of one client. They belong to the event loop that uses them first."""

    def __init__(self, settings: Settings) -> None:
        most = settings.max_in_flight
        token = {"Authorization": f"Bearer {settings.token}"} if settings.token else {}
        self._http = httpx.AsyncClient(
            headers={"Content-Type": "application/json", **token},
            limits=httpx.Limits(max_connections=most, max_keepalive_connections=most, keepalive_expiry=KEEPALIVE),
            verify=trusted(settings.verify),
            timeout=httpx.Timeout(None, connect=min(CONNECT_TIMEOUT, settings.timeout / 2)),  # `ask` limits the whole
            follow_redirects=True,
            trust_env=False,  # no proxy gets between
        )

    async def ask(self, endpoint: Endpoint, items: Sequence[Item], timeout: float) -> list[Outcome]:
        """The outcome for each item, in order; raises a ClientError if the request as a whole failed."""
        content = body(endpoint.protocol, items, endpoint.shares_prompts)
        try:
            response = await asyncio.wait_for(self._http.post(endpoint.url, content=content), timeout)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                todo = "pass verify= the file of its authority, or set SSL_CERT_FILE"
                raise Refused(f"has a certificate that is not trusted ({error}), {todo}", Cause.CERTIFICATE) from None
            why = str(error) or "not in time"
            raise Unavailable(f"could not be reached ({why}), check that it runs, its URL and the firewall") from None
        except asyncio.TimeoutError:
            raise Unavailable(f"did not answer within {timeout:.3g} s", divisible=True) from None
        except Exception as error:  # one item of the batch may have crashed it, and no caller may wait for ever
            why = f"{type(error).__name__}; if it has TLS, its URL needs https://"
            raise Unavailable(f"hung up without an answer ({why})", divisible=True) from None
        if response.status_code >= 400:
            raise refusal(response.status_code, response.headers.get("Retry-After", ""), response.content)
        endpoint.shares_prompts = response.headers.get("Accept-Prompts") == "shared"
        return endpoint.protocol.results(response.content, items)

    async def aclose(self) -> None:
        """End all connections."""
        await self._http.aclose()
