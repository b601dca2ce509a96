"""One request to a service over HTTP: its connections, and what goes wrong on the way as an error."""

import asyncio
from collections.abc import Sequence

import httpx

from math_reward.client.endpoints import Endpoint
from math_reward.client.errors import BadAnswer, Cause, ClientError, Refused, Unavailable
from math_reward.client.protocols import Item, Outcome, body, refusal
from math_reward.client.settings import Settings, trusted

CONNECT_TIMEOUT = 5.0
"""Seconds; a host that drops packets must not cost the whole timeout of a request."""

KEEPALIVE = 1.0
"""Seconds; shorter than services keep idle connections, so that none is closed during a request."""

ANSWER_BYTES, ITEM_BYTES = 16 * 2**20, 2**16
"""How long an answer may be, and how much more for each item: it may hold a request's 4 MiB, escaped."""


class Connections:
    """The connections of one client. They belong to the event loop that uses them first."""

    def __init__(self, settings: Settings) -> None:
        most = settings.max_in_flight
        token = {"Authorization": f"Bearer {settings.token}"} if settings.token else {}
        self._http = httpx.AsyncClient(
            # A few bytes that are packed can hold gigabytes, and a read of one piece unpacks it whole.
            headers={"Content-Type": "application/json", "Accept-Encoding": "identity", **token},
            limits=httpx.Limits(max_connections=most, max_keepalive_connections=most, keepalive_expiry=KEEPALIVE),
            verify=trusted(settings.verify),
            timeout=httpx.Timeout(None, connect=min(CONNECT_TIMEOUT, settings.timeout / 2)),  # `ask` limits the whole
            trust_env=False,  # no proxy gets between
        )

    async def ask(self, endpoint: Endpoint, items: Sequence[Item], timeout: float) -> list[Outcome]:
        """The outcome for each item, in order; raises a ClientError if the request as a whole failed."""
        content = body(endpoint.protocol, items, endpoint.shares_prompts)
        try:
            response, answer = await asyncio.wait_for(self._post(endpoint.url, content, len(items)), timeout)
        except ClientError:
            raise
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                todo = "pass verify= the file of its authority, or set SSL_CERT_FILE"
                raise Refused(f"has a certificate that is not trusted ({error}), {todo}", Cause.CERTIFICATE) from None
            why = str(error) or "not in time"
            raise Unavailable(f"could not be reached ({why}): check that it runs, its URL and the firewall") from None
        except asyncio.TimeoutError:
            raise Unavailable(f"did not answer within {timeout:.3g} s", divisible=True) from None
        except Exception as error:  # one item of the batch may have crashed it, and no caller may wait for ever
            why = f"{type(error).__name__}; if it has TLS, its URL needs https://"
            raise Unavailable(f"hung up without an answer ({why})", divisible=True) from None
        if response.status_code >= 400:
            raise refusal(response.status_code, response.headers.get("Retry-After", ""), answer)
        if (encoding := response.headers.get("Content-Encoding", "identity")) != "identity":
            raise BadAnswer(f"gave an answer in the encoding {encoding[:20]!r} unasked, check what stands before it")
        endpoint.shares_prompts = response.headers.get("Accept-Prompts") == "shared"
        return endpoint.protocol.results(answer, items)

    async def _post(self, address: str, content: bytes, items: int) -> tuple[httpx.Response, bytes]:
        """The answer and its body, from wherever this host redirects to on itself."""
        url, most = httpx.URL(address), ANSWER_BYTES + ITEM_BYTES * items
        for _ in range(4):  # to HTTPS, to a path with a slash at its end, and one more
            async with self._http.stream("POST", url, content=content) as response:
                if not response.has_redirect_location:
                    answer = bytearray()
                    async for part in response.aiter_raw():
                        answer += part
                        if len(answer) > most:
                            raise BadAnswer(f"gave an answer of over {most:,} bytes, check the URL", divisible=True)
                    return response, bytes(answer)
            to = url.join(response.headers["Location"])
            if to.host != url.host or to.scheme not in (url.scheme, "https"):
                said = f"redirects to {to.scheme}://{to.host}, which gets no completion unless the URL names it"
                raise Refused(said, Cause.PATH)
            url = to
        raise Refused("redirects in a circle, or too often, fix the URL", Cause.PATH)

    async def aclose(self) -> None:
        """End all connections."""
        await self._http.aclose()
