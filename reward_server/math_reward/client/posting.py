"""One request to a service over HTTP: its connections, and the faults of the way as a ``Failure``."""

import asyncio
import ssl
from collections.abc import Sequence

import httpx

from math_reward.client.endpoints import Endpoint
from math_reward.client.errors import Cause
from math_reward.client.protocols import Failure, Item, OpenRLHFProtocol, Result, body, outcomes, refusal, wrong
from math_reward.client.settings import Settings, trusted

CONNECT_TIMEOUT = 5.0
"""Seconds an attempt; a host that drops packets must not cost the whole timeout of a request."""

CONNECT_ATTEMPTS = 2
"""A connection that came too late says nothing of the service, and some requests are sent only once."""

KEEPALIVE = 1.0
"""Seconds; shorter than services keep idle connections, so that none is closed during a request."""

MAX_ANSWER_BYTES = 64 * 2**20


class Connections:
    """The connections of one client. They belong to the event loop that uses them first."""

    def __init__(self, settings: Settings) -> None:
        most = settings.max_in_flight
        self._http = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {settings.token}"} if settings.token else None,
            transport=httpx.AsyncHTTPTransport(
                limits=httpx.Limits(max_connections=most, max_keepalive_connections=most, keepalive_expiry=KEEPALIVE),
                trust_env=False,  # no proxy gets between
                verify=trusted(settings.verify),
                retries=CONNECT_ATTEMPTS - 1,
            ),
            follow_redirects=True,
            trust_env=False,
        )

    async def ask(self, endpoint: Endpoint, items: Sequence[Item], timeout: float) -> list[Result | Failure]:
        """The outcome for each item, in order.

        Raises:
            Failure: the request as a whole failed.
        """
        shared = endpoint.shares_prompts
        content = body(endpoint.protocol, items, shared)
        try:
            response = await asyncio.wait_for(self._exchange(endpoint.url, content, timeout), timeout)
        except httpx.ConnectTimeout:
            said = "could not be reached in time, check the host and the firewall"
            raise Failure(said, Cause.UNREACHABLE) from None
        except (asyncio.TimeoutError, httpx.TimeoutException):
            raise Failure(f"did not answer within {timeout:.3g} s", Cause.LATE, divisible=True) from None
        except (httpx.RemoteProtocolError, httpx.ReadError):  # one item of the batch may have crashed it
            said = f"hung up without an answer{_over_http(endpoint.url)}"
            raise Failure(said, Cause.HUNG_UP, divisible=True) from None
        except httpx.ConnectError as error:
            if why := _distrust(error):
                todo = "pass verify= the file of its authority, or set SSL_CERT_FILE"
                said = f"has a certificate that is not trusted ({why}): {todo}"
                raise Failure(said, Cause.CERTIFICATE) from None
            said = f"could not be reached ({error}), check that it runs and the URL"
            raise Failure(said, Cause.UNREACHABLE) from None
        status, headers, answer = response
        of_reward_model = endpoint.protocol is OpenRLHFProtocol
        if status == 422 and shared:  # another service has taken this one's place, of an older version perhaps
            endpoint.shares_prompts = False
            said = "refused a request whose items share prompts"
            raise Failure(said, Cause.FAILED, rewritten_may_succeed=True)
        if status >= 400:
            raise refusal(status, headers.get("Retry-After"), answer, of_reward_model=of_reward_model)
        endpoint.shares_prompts = headers.get("Accept-Prompts") == "shared" and not of_reward_model
        return outcomes(endpoint.protocol, answer, items)

    async def aclose(self) -> None:
        await self._http.aclose()

    async def _exchange(self, url: str, content: bytes, timeout: float) -> tuple[int, httpx.Headers, bytes]:
        """Status, headers and body of the answer to one POST."""
        headers = {"Content-Type": "application/json"}
        limits = httpx.Timeout(timeout, connect=min(CONNECT_TIMEOUT, timeout / (CONNECT_ATTEMPTS + 1)))
        async with self._http.stream("POST", url, content=content, headers=headers, timeout=limits) as response:
            answer = bytearray()
            async for chunk in response.aiter_bytes():
                answer += chunk
                if len(answer) > MAX_ANSWER_BYTES:
                    raise wrong(f"answered more than {MAX_ANSWER_BYTES // 2**20} MiB")
            return response.status_code, response.headers, bytes(answer)


def _distrust(error: BaseException) -> str | None:
    """Why a certificate was not trusted, from an error of the HTTP library; None if that is not the cause."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return cause.verify_message or cause.reason
        cause = cause.__cause__ or cause.__context__
    return None


def _over_http(url: str) -> str:
    """What to try where a service hangs up: one with TLS says nothing to a client without."""
    return " (if it has TLS, write https:// in its URL)" if url.startswith("http://") else ""
