"""One POST to a reward service over HTTP: its connections, and the faults of the way, as a
:class:`~openrlhf_gtpo.rewards.protocols.Failure`."""

import asyncio
import json
from collections.abc import Sequence

import httpx

from openrlhf_gtpo.rewards.certificates import distrust, trusted
from openrlhf_gtpo.rewards.client_settings import RewardClientSettings
from openrlhf_gtpo.rewards.endpoint import Endpoint
from openrlhf_gtpo.rewards.protocols import (
    ACCEPT_PROMPTS,
    SHARED,
    Failure,
    GradeProtocol,
    OpenRLHFProtocol,
    Reward,
    RewardRequest,
    refused,
)

__all__ = ["Connections"]

CONNECT_TIMEOUT = 5.0  # seconds an attempt; a host that drops packets must not cost a whole request timeout
CONNECT_ATTEMPTS = 2  # one that came too late says nothing of the service, and some requests are sent only once
KEEPALIVE = 1.0  # seconds; shorter than servers keep idle connections, so that none is closed during a request
MAX_ANSWER_BYTES = 64 * 2**20


class Connections:
    """The connections of one client. They belong to the event loop that uses them first."""

    def __init__(self, settings: RewardClientSettings) -> None:
        self._timeout = settings.timeout
        connections = settings.max_in_flight
        self._http = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {settings.token}"} if settings.token else None,
            timeout=httpx.Timeout(
                settings.timeout, connect=min(CONNECT_TIMEOUT, settings.timeout / (CONNECT_ATTEMPTS + 1))
            ),
            transport=httpx.AsyncHTTPTransport(
                limits=httpx.Limits(
                    max_connections=connections, max_keepalive_connections=connections, keepalive_expiry=KEEPALIVE
                ),
                # As OpenRLHF's client: no proxy from the environment, and by default the system's certificates.
                trust_env=False,
                verify=trusted(settings.ca_file),
                retries=CONNECT_ATTEMPTS - 1,
            ),
            follow_redirects=True,
            trust_env=False,
        )

    async def rewards(self, endpoint: Endpoint, batch: Sequence[RewardRequest]) -> list[Reward | Failure]:
        """The outcome for each item.

        Raises:
            Failure: the POST as a whole failed.
        """
        shared = bool(endpoint.shares_prompts)
        body = json.dumps(endpoint.protocol.question(batch, shared_prompts=shared)).encode()
        try:
            status, headers, content = await asyncio.wait_for(self._exchange(endpoint.url, body), self._timeout)
        except httpx.ConnectTimeout as error:
            raise Failure("could not be reached in time") from error
        except (asyncio.TimeoutError, httpx.TimeoutException) as error:
            raise Failure(f"did not answer within {self._timeout:g} s", divisible=True) from error
        except (httpx.RemoteProtocolError, httpx.ReadError) as error:  # one item of the batch may have crashed it
            raise Failure("hung up without an answer", divisible=True) from error
        except httpx.ConnectError as error:
            why = distrust(error)
            if why is None:
                raise
            raise Failure(
                f"has a certificate that is not trusted ({why}): give its authority's by --reward.ca_file",
                permanent=True,
                of_client=True,
            ) from error
        if status == 422 and shared:  # another service has taken this one's place, of an older version perhaps
            endpoint.shares_prompts = False
            raise Failure("refused a request whose items share prompts", rewritten_may_succeed=True)
        if status >= 400:
            raise refused(status, headers.get("Retry-After"), endpoint.protocol is OpenRLHFProtocol)
        if endpoint.protocol is GradeProtocol and endpoint.shares_prompts is None:
            endpoint.shares_prompts = headers.get(ACCEPT_PROMPTS) == SHARED or None
        try:
            answer = json.loads(content)
        except (ValueError, RecursionError) as error:
            kind = "HTML" if content.lstrip()[:1] == b"<" else "something"
            raise Failure(f"answered {kind} that is not JSON") from error
        return endpoint.protocol.rewards(answer, batch)

    async def aclose(self) -> None:
        await self._http.aclose()

    async def _exchange(self, url: str, body: bytes) -> tuple[int, httpx.Headers, bytes]:
        """Status, headers and body of the answer to one POST."""
        headers = {"Content-Type": "application/json"}
        async with self._http.stream("POST", url, content=body, headers=headers) as response:
            content = bytearray()
            async for chunk in response.aiter_bytes():
                content += chunk
                if len(content) > MAX_ANSWER_BYTES:
                    raise Failure(f"answered more than {MAX_ANSWER_BYTES // 2**20} MiB")
            return response.status_code, response.headers, bytes(content)
